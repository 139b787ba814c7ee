// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Outage is a way in which the registry is away.
type Outage int

// The ways.
const (
	None    Outage = iota
	Refused        // nobody listens: the connection is refused
	Silent         // packets vanish: the connection attempt gets no answer
	Stalled        // connections are accepted, requests get no answer
)

// String says what a test is about.
func (o Outage) String() string {
	switch o {
	case None:
		return "up"
	case Refused:
		return "refused"
	case Silent:
		return "silent"
	case Stalled:
		return "stalled"
	default:
		return fmt.Sprintf("outage %d", int(o))
	}
}

// dropRules is what makes packets vanish on their way in: whoever asks learns
// nothing.
const dropRules = `table inet registry-silence {
	counter lost { }
	chain input {
		type filter hook input priority filter;
		tcp dport ` + port + ` counter name lost drop
	}
}
`

// Down makes the registry be away in one of the ways, instead of the one before.
// A pull that is under way meets it, too.
func (r *Registry) Down(ctx context.Context, o Outage) error {
	r.switching.Lock()
	defer r.switching.Unlock()
	if err := r.restore(ctx); err != nil {
		return err
	}
	r.outage = o
	switch o {
	case None:
	case Refused:
		if err := r.stop(); err != nil {
			return fmt.Errorf("stop the registry: %w", err)
		}
	case Silent:
		if _, err := r.node.Input(ctx, dropRules, "nft", "-f", "-"); err != nil {
			return fmt.Errorf("make the registry's packets vanish: %w", err)
		}
	case Stalled:
		r.stalled.Store(true)
	}
	return nil
}

// Up ends an outage; when there is none, nothing happens. A request that has
// stalled does so until its client gives up.
func (r *Registry) Up(ctx context.Context) error { return r.Down(ctx, None) }

// Lost counts the packets that have vanished in a Silent outage so far.
func (r *Registry) Lost(ctx context.Context) (int, error) {
	out, err := r.node.Run(ctx, "nft", "list", "counter", "inet", "registry-silence", "lost")
	if err != nil {
		return 0, fmt.Errorf("count the lost packets: %w", err)
	}
	_, after, _ := strings.Cut(out, "packets ")
	digits, _, _ := strings.Cut(after, " ")
	lost, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("count the lost packets in %q: %w", out, err)
	}
	return lost, nil
}

func (r *Registry) restore(ctx context.Context) error {
	r.stalled.Store(false)
	if r.outage == Silent {
		if _, err := r.node.Run(ctx, "nft", "delete", "table", "inet", "registry-silence"); err != nil {
			return fmt.Errorf("let the registry's packets through: %w", err)
		}
	}
	r.outage = None
	if r.closeServer != nil {
		return nil
	}
	return r.start(ctx)
}

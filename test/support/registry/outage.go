// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Outage is a kind of outage.
type Outage int

// Kinds of outages.
const (
	None    Outage = iota
	Refused        // no listener: connections are refused
	Silent         // packets are dropped: connection attempts get no answer
	Stalled        // connections are accepted, requests get no answer
	Denied         // the nodes' credentials are valid and do not permit to read
)

// String returns the name of the outage.
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
	case Denied:
		return "denied"
	default:
		return fmt.Sprintf("outage %d", int(o))
	}
}

// dropRules drops incoming packets without an error.
const dropRules = `table inet registry-silence {
	counter lost { }
	chain input {
		type filter hook input priority filter;
		tcp dport ` + port + ` counter name lost drop
	}
}
`

// Down starts an outage in place of the previous one. It also affects running pulls.
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
			return fmt.Errorf("drop the registry's packets: %w", err)
		}
	case Stalled:
		r.stalled.Store(true)
	case Denied:
		r.denied.Store(true)
	}
	return nil
}

// Up ends an outage, if there is one. A stalled request stays stalled until its client
// disconnects.
func (r *Registry) Up(ctx context.Context) error { return r.Down(ctx, None) }

// Lost returns the number of dropped packets in a Silent outage.
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
	r.denied.Store(false)
	if r.outage == Silent {
		if _, err := r.node.Run(ctx, "nft", "delete", "table", "inet", "registry-silence"); err != nil {
			return fmt.Errorf("accept the registry's packets: %w", err)
		}
	}
	r.outage = None
	if r.closeServer != nil {
		return nil
	}
	return r.start(ctx)
}

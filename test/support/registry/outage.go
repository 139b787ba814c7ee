// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
)

// Outage is a kind of outage.
type Outage int

// Kinds of outages.
const (
	None    Outage = iota
	Refused        // no listener: connections are refused
	Stalled        // connections are accepted, requests get no answer
	Denied         // the nodes' credentials are valid and do not permit to read
)

// Down starts an outage, which replaces the previous one. It also affects running pulls.
func (r *Registry) Down(ctx context.Context, o Outage) error {
	r.switching.Lock()
	defer r.switching.Unlock()
	if err := r.restore(ctx); err != nil {
		return err
	}
	switch o {
	case None:
	case Refused:
		if err := r.stop(); err != nil {
			return fmt.Errorf("stop the registry: %w", err)
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

func (r *Registry) restore(ctx context.Context) error {
	r.stalled.Store(false)
	r.denied.Store(false)
	if r.closeServer != nil {
		return nil
	}
	return r.start(ctx)
}

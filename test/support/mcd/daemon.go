// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Daemon is the machine-config-daemon of one machine. Its first config is the
// empty one. It is to be used from one goroutine at a time.
type Daemon struct {
	Machine Machine
	Policy  Policy
	Flavour Flavour
	// Shuffle puts changes into the order in which they are dealt with, since
	// the real daemon walks Go maps: rand.Shuffle for example. Without it they
	// keep the order of the rendered config.
	Shuffle func(n int, swap func(i, j int))

	current Rendered
}

// ActionResult is an action that was tried.
type ActionResult struct {
	Action
	Took   time.Duration
	Output string // standard output of its command
	Err    error
}

// Report tells how an update went.
type Report struct {
	From, To string         // names of the rendered configs
	Decided  []Action       // after the files were written
	Actions  []ActionResult // in order; after one that failed there are no more
	Drained  bool           // the node would have been drained before the first file was written
	Rebooted bool           // a reboot was asked for: the caller's to do
	Degraded error          // the node would be marked Degraded, and the files are the old ones again
	Notes    []string       // failures that the daemon logs and passes over
	Took     time.Duration
}

// String is the report as a log would show it, over several lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "update from %q to %q in %v\n", r.From, r.To, r.Took.Round(time.Millisecond))
	for _, a := range r.Actions {
		fmt.Fprintf(&b, "  %s: %v", a.Action, a.Took.Round(time.Millisecond))
		if a.Err != nil {
			fmt.Fprintf(&b, ": %v", a.Err)
		}
		b.WriteByte('\n')
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  passed over: %s\n", n)
	}
	if r.Degraded != nil {
		fmt.Fprintf(&b, "  Degraded: %v\n", r.Degraded)
	}
	return b.String()
}

// Current is the config that the machine has.
func (d *Daemon) Current() Rendered { return d.current }

// Update brings a new config onto the machine (pkg/controller/update.go, update).
// A failure while files are written leaves them half done, as upstream does;
// after a failed action the old files are written again, without any action.
// In both cases the current config stays the old one and Update may be called
// again, which the real daemon does by itself.
func (d *Daemon) Update(ctx context.Context, to Rendered) (r Report) {
	start := time.Now()
	from := d.current
	r.From, r.To = from.Name, to.Name
	defer func() { r.Took = time.Since(start) }()
	if err := reconcilable(from, to); err != nil {
		r.Degraded = fmt.Errorf("cannot go from %s to %s on a running host: %w", from.Name, to.Name, err)
		return r
	}
	changes := compareConfigs(from, to, d.Shuffle)
	r.Decided = d.decide(from, to, changes)
	// pkg/controller/drain.go, isDrainRequiredForNodeDisruptionActions, which for
	// Special looks into registries.conf as well.
	r.Drained = hasType(r.Decided, Reboot) || hasType(r.Decided, Drain) || hasType(r.Decided, Special)

	w := writer{machine: d.Machine, flavour: d.Flavour}
	defer func() { r.Notes = w.notes }()
	if err := w.update(ctx, from, to, changes.write(to, d.Flavour)); err != nil {
		r.Degraded = err
		return r
	}
	if err := d.perform(ctx, &r); err != nil {
		back := compareConfigs(to, from, d.Shuffle)
		if e := w.update(ctx, to, from, back.write(from, d.Flavour)); e != nil {
			err = errors.Join(err, fmt.Errorf("roll back: %w", e))
		}
		r.Degraded = err
		return r
	}
	d.current = to
	return r
}

// decide follows pkg/controller/update.go,
// calculatePostConfigChangeNodeDisruptionAction.
func (d *Daemon) decide(from, to Rendered, changes difference) []Action {
	if !from.host.equal(to.host) {
		return []Action{{Type: Reboot}}
	}
	files, units := changes.files(), changes.units(d.Flavour)
	if len(files) == 0 && len(units) == 0 {
		return []Action{{Type: None}}
	}
	return d.Policy.decide(files, units)
}

// perform takes the decided actions one after the other up to the first
// failure (pkg/controller/update.go, performPostConfigChangeNodeDisruptionAction).
func (d *Daemon) perform(ctx context.Context, r *Report) error {
	for _, a := range r.Decided {
		start := time.Now()
		var out string
		var err error
		switch a.Type {
		case Drain:
			continue // done before the files were written
		case Reboot:
			r.Rebooted = true
		case None:
		default:
			out, err = d.systemctl(ctx, a)
		}
		r.Actions = append(r.Actions, ActionResult{Action: a, Took: time.Since(start), Output: out, Err: err})
		if err != nil {
			return fmt.Errorf("action %s failed: %w", a, err)
		}
	}
	return nil
}

func (d *Daemon) systemctl(ctx context.Context, a Action) (string, error) {
	switch a.Type {
	case DaemonReload:
		return d.Machine.Run(ctx, "systemctl", "daemon-reload")
	case Reload:
		return d.Machine.Run(ctx, "systemctl", "reload", a.Service)
	case Special:
		return d.Machine.Run(ctx, "systemctl", "reload", "crio.service")
	case Restart:
		out, err := d.Machine.Run(ctx, "systemctl", "restart", a.Service)
		if err != nil && a.Service == caTrust {
			return d.Machine.Run(ctx, "update-ca-trust") // a host other than CoreOS has no such unit
		}
		return out, err
	default:
		return "", fmt.Errorf("unknown action %q", a.Type)
	}
}

// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Daemon simulates the machine-config-daemon of one machine. Its first config is the empty
// one. It must be used from one goroutine at a time.
type Daemon struct {
	Machine Machine
	Policy  Policy
	Flavour Flavour
	// Layered: a MachineOSConfig exists for the pool.
	Layered bool
	// Shuffle sets the order of changes, such as rand.Shuffle: the real daemon iterates
	// over Go maps. Without it changes keep the order of the rendered config.
	Shuffle func(n int, swap func(i, j int))

	current Rendered
}

// ActionResult is the result of an action.
type ActionResult struct {
	Action
	Took   time.Duration
	Output string // standard output of its command
	Err    error
}

// Report is the result of an update.
type Report struct {
	From, To string         // names of the rendered configs
	Actions  []ActionResult // results in order up to the first failure
	Drained  bool           // a real node would be drained before the first file is written
	Rebooted bool           // a reboot is required, which the caller does
	Degraded error          // the node would be marked Degraded, and the old files are restored
	Notes    []string       // failures that the daemon logs and ignores
	Took     time.Duration
}

// String formats the report for a log in several lines.
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
		fmt.Fprintf(&b, "  ignored: %s\n", n)
	}
	if r.Degraded != nil {
		fmt.Fprintf(&b, "  Degraded: %v\n", r.Degraded)
	}
	return b.String()
}

// Update applies a new config to the machine (pkg/daemon/update.go, update). A machine that
// differs from its current config is not updated (pkg/daemon/daemon.go,
// runPreflightConfigDriftCheck), except by the zero config, which restores it. A failure
// while files are written leaves them incomplete, as upstream does. After a failed action
// the old files are written again without any action. In both cases the current config is
// unchanged and Update may be called again, which the real daemon does by itself.
func (d *Daemon) Update(ctx context.Context, to Rendered) (r Report) {
	start := time.Now()
	from := d.current
	r.From, r.To = from.Name, to.Name
	defer func() { r.Took = time.Since(start) }()
	if to.Name != "" {
		if r.Degraded = d.Drift(ctx); r.Degraded != nil {
			return r
		}
	}
	changes := compareConfigs(from, to, d.Shuffle)
	decided := d.decide(from, to, changes)
	// pkg/daemon/drain.go, isDrainRequiredForNodeDisruptionActions.
	r.Drained = hasType(decided, Reboot) || hasType(decided, Drain)

	w := writer{machine: d.Machine}
	defer func() { r.Notes = w.notes }()
	if err := w.update(ctx, from, to, changes.write(to, d.Flavour)); err != nil {
		r.Degraded = err
		return r
	}
	if err := d.perform(ctx, decided, &r); err != nil {
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

// decide follows pkg/daemon/update.go,
// calculatePostConfigChangeNodeDisruptionAction.
func (d *Daemon) decide(from, to Rendered, changes difference) []Action {
	if from.host != to.host || d.Layered && d.Flavour.buildsEveryChange() && from.Name != to.Name {
		return []Action{{Type: Reboot}}
	}
	files, units := changes.files(), changes.units(d.Flavour)
	if len(files) == 0 && len(units) == 0 {
		return []Action{{Type: None}}
	}
	return d.Policy.decide(files, units)
}

// perform runs the decided actions in order until the first failure (pkg/daemon/update.go,
// performPostConfigChangeNodeDisruptionAction).
func (d *Daemon) perform(ctx context.Context, decided []Action, r *Report) error {
	for _, a := range decided {
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
	case Restart:
		return d.Machine.Run(ctx, "systemctl", "restart", a.Service)
	default:
		return "", fmt.Errorf("unknown action %q", a.Type)
	}
}

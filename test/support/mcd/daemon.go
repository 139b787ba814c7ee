// SPDX-License-Identifier: Apache-2.0

// An update of one host: what the daemons of 4.17 and 4.18 do, and what a reboot for another OS image or
// kernel argument does. OpenShift's own daemon of the snapshots runs in test/rehearsal/openshift.

package mcd

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// Daemon replays the machine-config-daemon of one host, for releases whose own daemon is not served
// and for faults that would take too long with it. Its first config is the empty one. It must be used
// from one goroutine at a time.
type Daemon struct {
	Host    *host.Host
	Policy  Policy
	Flavour Flavour

	current Rendered
}

// Report is the result of an update.
type Report struct {
	Actions  []string // systemctl commands that ran, in order
	Rebooted bool     // a reboot is required, which the caller does
	Degraded error    // the node would be marked Degraded
}

// Update applies a new config to the host (pkg/daemon/update.go, update), and then compares the host with
// it, as the drift monitor does. After a failure, the current config is unchanged, and Update may be
// called again, which the real daemon does by itself.
func (d *Daemon) Update(ctx context.Context, to Rendered) (r Report) {
	changes := compareConfigs(d.current, to)
	actions, reboot := d.Policy.decide(changes, d.Flavour)
	// Every policy needs a reboot for the host's image and kernel arguments.
	r.Rebooted = reboot || d.current.host != to.host
	if r.Degraded = d.write(ctx, to, changes); r.Degraded != nil {
		return r
	}
	if !r.Rebooted {
		if r.Degraded = d.perform(ctx, actions, &r); r.Degraded != nil {
			return r
		}
	}
	d.current = to
	r.Degraded = d.drift(ctx)
	return r
}

// perform runs actions in order until the first failure (pkg/daemon/update.go,
// performPostConfigChangeNodeDisruptionAction).
func (d *Daemon) perform(ctx context.Context, actions []Action, r *Report) error {
	for _, a := range actions {
		var args []string
		switch a.Type {
		case operatorv1.DaemonReloadStatusAction:
			args = []string{"daemon-reload"}
		case operatorv1.ReloadStatusAction:
			args = []string{"reload", string(a.Reload.ServiceName)}
		case operatorv1.RestartStatusAction:
			args = []string{"restart", string(a.Restart.ServiceName)}
		case operatorv1.NoneStatusAction:
			continue
		default:
			return fmt.Errorf("the replay has no action %s", a.Type)
		}
		if _, err := d.Host.Run(ctx, "systemctl", args...); err != nil {
			return fmt.Errorf("an action of the policy: %w", err)
		}
		r.Actions = append(r.Actions, fmt.Sprint(args))
	}
	return nil
}

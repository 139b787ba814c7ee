// SPDX-License-Identifier: Apache-2.0

//go:build mco

package openshift

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestInterruptions interrupts updates of a node in the middle, and reboots all nodes in turn.
func TestInterruptions(t *testing.T) {
	a := newAdmin(t)
	a.install()
	m := a.hosts.ControlPlane[1]
	written := func(port int) func() error {
		return func() error {
			text, err := m.ReadFile(configFile)
			if err == nil && !strings.Contains(text, strconv.Itoa(port)) {
				err = errors.New(text)
			}
			return err
		}
	}
	powerLoss := func() {
		must(t, m.Kill(t.Context()))
		must(t, m.BootTo(t.Context(), daemonUnit))
	}
	a.interrupt("the daemon is killed in the middle of an update", m, 9888, written(9888), expect{}, func() {
		must1(m.Run(t.Context(), "systemctl", "kill", "--signal=KILL", daemonUnit))(t)
	})
	a.interrupt("power loss after the file was written", m, 9889, written(9889), expect{reboots: 1}, powerLoss)
	a.rebootInTurn()
	a.remove()
}

// interrupt changes the configuration, and interrupts the update of a host at a moment. The daemon then finds
// a file that its configuration does not contain. The administrator restores it.
func (a *admin) interrupt(name string, m *host.Host, port int, moment func() error, want expect, act func()) {
	a.t.Helper()
	ctx := a.t.Context()
	original := must1(m.ReadFile(configFile))(a.t)
	a.configure(configuration(port))
	a.procedure(name, want, func() {
		a.applyImage(shared.images[first])
		must(a.t, lab.Within(ctx, rolloutLimit, "the update of "+m.Name, func(context.Context) error { return moment() }))
		act()
		a.awaitNode(m, "Degraded", configFile)
		units := must1(m.Run(ctx, "sh", "-c", "systemctl list-unit-files --no-legend 'http01*'; systemctl is-active "+service+
			" || true"))(a.t)
		fmt.Printf("after the interruption: %s\n", units)
		must1(m.Input(ctx, original, "sh", "-c", "cat > "+configFile))(a.t)
	})
	a.awaitPort(port)
	must1(a.hosts.AwaitState(ctx, m, "Standby"))(a.t)
}

// rebootConfig is a MachineConfig of somebody else, without an entry in the policy.
const rebootConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-master-motd
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: /etc/motd
        mode: 0644
        overwrite: true
        contents: {source: "data:,hello%0A"}
`

// rebootInTurn has another MachineConfig reboot all hosts, one after the other.
func (a *admin) rebootInTurn() {
	a.t.Helper()
	a.procedure("all hosts reboot in turn for another MachineConfig", expect{reboots: 3, lost: true}, func() {
		a.applyObject(rebootConfig)
		must(a.t, a.AwaitRendered(a.t.Context(), "50-master-motd", true))
	})
	a.awaitServing(first)
}

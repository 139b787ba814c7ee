// SPDX-License-Identifier: Apache-2.0

//go:build mco

package openshift

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// interruption is how the update of a host is interrupted.
type interruption struct {
	name    string
	host    *host.Host
	port    int
	moment  func() error // nil at the moment of the interruption
	act     func()
	want    expect
	stopped bool // the daemon completes the update later, but does not start the service
}

// TestInterruptions interrupts updates of a node in the middle, and reboots all nodes in turn.
func TestInterruptions(t *testing.T) {
	a := newAdmin(t)
	a.install()
	holder, standby := a.hosts.ControlPlane[0], a.hosts.ControlPlane[1]
	written := func(port int) func() error {
		return func() error {
			text, err := standby.ReadFile(configFile)
			if err == nil && !strings.Contains(text, strconv.Itoa(port)) {
				err = errors.New(text)
			}
			return err
		}
	}
	powerLoss := func(m *host.Host) func() {
		return func() {
			must(t, m.Kill(t.Context()))
			must(t, m.BootTo(t.Context(), daemonUnit))
		}
	}
	a.interrupt(interruption{
		name: "power loss while the units are disabled", host: holder, port: 9888, moment: a.disabled(holder),
		act: powerLoss(holder), want: expect{reboots: 1, lost: true}, stopped: true,
	})
	a.interrupt(interruption{
		name: "power loss after the file was written", host: standby, port: 9889, moment: written(9889),
		act: powerLoss(standby), want: expect{reboots: 1},
	})
	a.interrupt(interruption{
		name: "the daemon is killed in the middle of an update", host: standby, port: 9890, moment: written(9890),
		act: func() { must1(standby.Run(t.Context(), "systemctl", "kill", "--signal=KILL", daemonUnit))(t) },
	})
	a.changeWithoutEntries()
	a.remove(entriesMissing)
}

// disabled returns a function that returns nil while the daemon has disabled all units of the service, and stops
// the daemon then. The daemon disables each unit before it writes the unit, and enables all of them at the end.
// If only the service is disabled, the timer starts it after the boot.
func (a *admin) disabled(m *host.Host) func() error {
	a.t.Helper()
	properties := must1(m.Properties(a.t.Context(), daemonUnit, "MainPID"))(a.t)
	daemon := must1(m.PID(properties["MainPID"]))(a.t)
	enabled := func() bool {
		_, err := os.Lstat(filepath.Join(m.Root, "/etc/systemd/system/timers.target.wants/http01-proxyd-install.timer"))
		return err == nil
	}
	return func() error {
		if enabled() {
			return errors.New("the last unit is enabled")
		}
		if err := unix.Kill(daemon, unix.SIGSTOP); err != nil || !enabled() {
			return err
		}
		return errors.Join(errors.New("the daemon has enabled the last unit"), unix.Kill(daemon, unix.SIGCONT))
	}
}

// interrupt changes the configuration, and interrupts the update of a host at a moment. The daemon then finds
// a file that its configuration does not contain. The administrator restores it.
func (a *admin) interrupt(i interruption) {
	a.t.Helper()
	ctx, m := a.t.Context(), i.host
	original := must1(m.ReadFile(configFile))(a.t)
	a.configure(configuration(i.port))
	a.procedure(i.name, i.want, func() {
		a.applyImage(shared.images[first])
		must(a.t, lab.Within(ctx, rolloutLimit, "the update of "+m.Name, func(context.Context) error { return i.moment() }))
		i.act()
		a.awaitNode(m, "Degraded", configFile)
		must1(m.Input(ctx, original, "sh", "-c", "cat > "+configFile))(a.t)
		must(a.t, a.AwaitUpdated(ctx))
		states := must1(m.Properties(ctx, service, "ActiveState", "UnitFileState"))(a.t)
		if states["UnitFileState"] != "enabled" || (states["ActiveState"] != "active") != i.stopped {
			a.t.Errorf("%s: the service on %s is %q", i.name, m, states)
		}
		if i.stopped {
			a.must(lifeGuide, "Recover", 0)
		}
	})
	a.awaitServing(first)
	a.awaitPort(i.port)
}

// changeWithoutEntries changes the configuration without apply.sh, after another tool has removed our entries:
// all hosts reboot in turn.
func (a *admin) changeWithoutEntries() {
	a.t.Helper()
	a.removeEntriesBy(mergePatch)
	a.configure(configuration(9891))
	a.procedure("configuration without our entries", expect{
		predicted: []string{entriesMissing}, reboots: len(a.hosts.ControlPlane), drained: len(a.hosts.ControlPlane),
		lost: true,
	}, func() { a.applyImage(shared.images[first]) })
	a.awaitServing(first)
	a.awaitPort(9891)
}

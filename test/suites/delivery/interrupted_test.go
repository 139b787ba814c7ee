// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

const installState = "/var/lib/http01-proxyd/install/"

// otherEnvironment is a drop-in of somebody else's for the service.
const otherEnvironment = `    systemd:
      units:
      - name: http01-proxyd.service
        dropins:
        - {name: 50-test.conf, contents: "[Service]\nEnvironment=IN_FORCE=yes\n"}
`

// runScript runs a shell's script on the node.
func (n *node) runScript(script string) string {
	n.t.Helper()
	out := must1(n.Run(n.t.Context(), "sh", "-c", script))(n.t)
	return out
}

// override writes a drop-in that outlives a boot, until the test ends.
func (n *node) override(unit, text string) {
	n.t.Helper()
	path := "/etc/systemd/system/" + unit + ".d/99-test.conf"
	must(n.t, n.WriteFile(path, text, 0o644))
	n.t.Cleanup(func() {
		must(n.t, n.RemoveFile(path))
		must1(n.Run(context.Background(), "systemctl", "daemon-reload"))(n.t)
	})
	n.runScript("systemctl daemon-reload")
}

// A first binary that never gets ready stays a failure, however often the
// installer runs, and the timer goes on.
func TestFirstBinaryNotReady(t *testing.T) {
	n := newNode(t)
	n.apply(n.scriptImage("never", "if [ \"$1\" = version ]; then echo never; else exit 1; fi\n"))
	n.awaitInstaller(t, n.Host, "does not become ready", "status=1/FAILURE")
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "does not become ready", "status=1/FAILURE")
	n.awaitUnitState(timer, "active")
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "is installed")
	must(t, n.checkRelease(t.Context(), n.Host, first))
}

// Power is lost after the swap, before anybody knows whether the binary gets
// ready: the next boot finds out, and takes it back.
func TestPowerLossBeforeReady(t *testing.T) {
	n := newServingNode(t)
	n.override(service, "[Service]\nTimeoutStartSec=3s\n")
	hangs := n.scriptImage("hangs", "if [ \"$1\" = version ]; then echo hangs; else exec sleep infinity; fi\n")
	n.override(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+hangs+"\n")
	n.runScript("systemctl start --no-block " + installer)
	must(t, eventually(t, "a binary in place that is not proven", func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-c", "test -s "+installState+"pending && cmp /usr/local/bin/http01-proxyd /proc/$(systemctl show --property=MainPID --value "+service+")/exe || grep -q hangs /usr/local/bin/http01-proxyd")
		return err
	}))
	must(t, n.Kill(t.Context()))
	must(t, n.BootTo(t.Context(), "sysinit.target"))
	n.awaitInstaller(t, n.Host, "the previous binary is back and serves")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	n.runScript("test ! -e " + installState + "pending")
}

// An admin stops the service while the new binary gets ready. That says nothing
// against the binary.
func TestStopBeforeReady(t *testing.T) {
	n := newServingNode(t)
	n.override(service, "[Service]\nExecStartPre=/usr/bin/sleep 5\n")
	n.override(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+n.images[second]+"\n")
	n.runScript("systemctl start --no-block " + installer)
	// Its ExecStartPre runs: systemd leaves a directory in /tmp when it is stopped
	// amid what it does before that for PrivateDevices=.
	must(t, eventually(t, "the service to get ready", func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-c", "grep sleep /proc/$(systemctl show --property=ControlPID --value "+service+")/comm")
		return err
	}))
	n.runScript("systemctl stop " + service)
	n.awaitInstaller(t, n.Host, "was stopped before it became ready", "status=1/FAILURE")
	n.runScript("test ! -e " + installState + "refused")
	n.awaitUnitState(timer, "active")
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "is installed")
	must(t, n.checkRelease(t.Context(), n.Host, second))
}

// An attempt that fails at once is one attempt, though it has started the timer,
// which fires a second later: what an admin asks next is not taken for the
// timer's.
func TestImmediateFailure(t *testing.T) {
	n := newNode(t)
	n.apply(n.images[first])
	n.awaitUnitState(timer, "inactive")
	n.override(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE=\n")
	n.runScript("systemctl start " + installer)
	n.awaitInstaller(t, n.Host, "no image is configured", "status=1/FAILURE")
	n.expectTimerFired()
}

func (n *node) expectTimerFired() {
	n.t.Helper()
	got := must1(n.Properties(n.t.Context(), timer, "ActiveState", "LastTriggerUSecMonotonic"))(n.t)
	if got["ActiveState"] != "active" || got["LastTriggerUSecMonotonic"] == "0" {
		n.t.Errorf("the timer has still to fire: %v", got)
	}
}

// What changed while the installer could not do its work is in force once it
// can: also after a boot.
func TestUnitChangedDuringFailedPull(t *testing.T) {
	n := newServingNode(t)
	must(t, n.Registry.Down(t.Context(), registry.Refused))
	n.apply(n.images[third])
	n.awaitInstaller(t, n.Host, "cannot pull")
	must(t, n.Reboot(t.Context()))
	n.awaitInstaller(t, n.Host, "cannot pull")
	n.addMachineConfig("99-master-environment", otherEnvironment)
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "is already installed")
	if out := n.runScript("tr '\\0' '\\n' </proc/$(systemctl show --property=MainPID --value " + service + ")/environ"); !strings.Contains(out, "IN_FORCE=yes") {
		t.Errorf("the service runs without its new drop-in:\n%s", out)
	}
}

// The removal does not rest on the installer having run since the boot.
func TestRemovedWithTimerDisabled(t *testing.T) {
	n := newServingNode(t)
	n.addMachineConfig("99-master-timer", `    systemd:
      units:
      - {name: http01-proxyd-install.timer, enabled: false}
`)
	n.update()
	must(t, n.Reboot(t.Context()))
	n.awaitUnitState(service, "active")
}

// The removal does not wait for a podman that hangs.
func TestRemovedWhilePodmanHangs(t *testing.T) {
	n := newServingNode(t)
	const stub = "/usr/local/sbin/podman"
	must(t, n.WriteFile(stub, "#!/bin/sh\nexec sleep infinity\n", 0o755))
	defer func() { must(t, errors.Join(n.RemoveFile(stub))) }()
	report := n.daemon.Update(t.Context(), mcd.Rendered{})
	if report.Degraded != nil {
		t.Error(report)
	}
	n.runScript("test ! -e /usr/local/bin/http01-proxyd")
}

// A binary that cannot get ready costs one attempt, though several units of the
// same update ask for one.
func TestBadBinaryIsTriedOnce(t *testing.T) {
	n := newServingNode(t)
	before := n.installerStarts()
	n.addMachineConfig("99-master-environment", otherEnvironment)
	n.apply(n.scriptImage("once", "if [ \"$1\" = version ]; then echo once; else exit 1; fi\n"))
	n.expectTimerFired()
	n.awaitInstaller(t, n.Host, "the previous binary is back and serves", "status=1/FAILURE")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if got := n.installerStarts() - before; got != 1 {
		t.Errorf("the installer started the service %d times with the new binary, want once", got)
	}
}

// installerStarts is how often the installer has started the service with another
// binary. systemd's own restarts are not counted: one may come before the installer has
// put the previous binary back, or after.
func (n *node) installerStarts() int {
	n.t.Helper()
	out := must1(n.Run(n.t.Context(), "sh", "-c", "journalctl --sync; journalctl --quiet --boot --output=cat --unit=http01-proxyd-install.service | grep -c '^starting http01-proxyd.service' || :"))(n.t)
	return must1(strconv.Atoi(strings.TrimSpace(out)))(n.t)
}

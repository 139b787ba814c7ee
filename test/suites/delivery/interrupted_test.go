// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

const installState = "/var/lib/http01-proxyd/install/state.json"

// otherEnvironment is a drop-in of another owner for the service.
const otherEnvironment = `    systemd:
      units:
      - name: http01-proxyd.service
        dropins:
        - {name: 50-test.conf, contents: "[Service]\nEnvironment=IN_FORCE=yes\n"}
`

// runScript runs a shell script on the host.
func (n *node) runScript(script string) string {
	n.t.Helper()
	out := must1(n.Run(n.t.Context(), "sh", "-c", script))(n.t)
	return out
}

// override writes a persistent drop-in until the test ends.
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

// TestFirstBinaryNotReady holds that a first binary that does not become ready stays a
// failure in every attempt, and the timer stays active.
func TestFirstBinaryNotReady(t *testing.T) {
	n := newNode(t)
	n.apply(n.unreadyImage("never", "exit 1"))
	n.awaitInstaller(t, n.Host, "does not become ready", "status=1/FAILURE")
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "does not become ready", "status=1/FAILURE")
	n.awaitUnitState(timer, "active")
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "is installed")
	must(t, n.checkRelease(t.Context(), n.Host, first))
}

// TestPowerLossBeforeReady cuts the power after the swap, before the new binary is ready.
// After the next boot the previous binary is restored.
func TestPowerLossBeforeReady(t *testing.T) {
	n := newServingNode(t)
	n.override(service, "[Service]\nTimeoutStartSec=3s\n")
	image := n.unreadyImage("hangs", "exec sleep infinity")
	n.override(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+image+"\n")
	n.runScript("systemctl start --no-block " + installer)
	must(t, eventually(t, "an installed binary that has not become ready", func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-c", "grep hangs "+binary)
		return err
	}))
	must(t, n.Kill(t.Context()))
	must(t, n.BootTo(t.Context(), "sysinit.target"))
	n.awaitInstaller(t, n.Host, "the previous binary is restored and serves")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	n.runScript(`grep '"rejected": {' ` + installState)
}

// TestStopBeforeReady stops the service while the new binary starts. The binary is not
// rejected for that.
func TestStopBeforeReady(t *testing.T) {
	n := newServingNode(t)
	n.override(service, "[Service]\nExecStartPre=/usr/bin/sleep 5\n")
	n.override(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+n.images[second]+"\n")
	n.runScript("systemctl start --no-block " + installer)
	// ExecStartPre is running: before it, a stopped systemd would leave a directory of
	// PrivateDevices= in /tmp.
	must(t, eventually(t, "the service to get ready", func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-c", "grep sleep /proc/$(systemctl show --property=ControlPID --value "+service+")/comm")
		return err
	}))
	n.runScript("systemctl stop " + service)
	n.awaitInstaller(t, n.Host, "was stopped before it became ready", "status=1/FAILURE")
	n.runScript(`! grep '"rejected"' ` + installState)
	n.awaitUnitState(timer, "active")
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "is installed")
	must(t, n.checkRelease(t.Context(), n.Host, second))
}

// TestImmediateFailure holds that an attempt that fails at once is one attempt, although
// the timer fires a second later. The administrator's next request is not mistaken for the
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
		n.t.Errorf("the timer has not fired: %v", got)
	}
}

// TestUnitChangedDuringFailedPull holds that changes made while the installer failed take
// effect once it succeeds, also after a boot.
func TestUnitChangedDuringFailedPull(t *testing.T) {
	n := newServingNode(t)
	must(t, n.Registry.Down(t.Context(), registry.Refused))
	n.apply(n.images[third])
	n.awaitInstaller(t, n.Host, "cannot pull")
	n.expectDocumentedCause()
	must(t, n.Reboot(t.Context()))
	n.awaitInstaller(t, n.Host, "cannot pull")
	n.addMachineConfig("99-master-environment", otherEnvironment)
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "is installed, unchanged")
	if out := n.runScript("tr '\\0' '\\n' </proc/$(systemctl show --property=MainPID --value " + service +
		")/environ"); !strings.Contains(out, "IN_FORCE=yes") {
		t.Errorf("the service runs without its new drop-in:\n%s", out)
	}
}

// expectDocumentedCause runs the documented commands after a failed pull: they show podman's error.
func (n *node) expectDocumentedCause() {
	n.t.Helper()
	const section = "When a pull fails"
	guide := openDocument(n.t, machineConfigGuide, installMark)
	// The unit is inactive at this point, which is the exit status 3 of systemctl.
	status := must1(n.shell.run(n.t.Context(), strings.TrimSpace(guide.block(n.t, section, 0, 2))+" || [ $? -eq 3 ]"))(n.t)
	journal := must1(n.shell.run(n.t.Context(), guide.block(n.t, section, 1, 2)))(n.t)
	if !strings.Contains(status, "cannot pull") || !strings.Contains(journal, "connection refused") {
		n.t.Errorf("the status of the installer:\n%s\nits journal:\n%s", status, journal)
	}
}

// TestRemovedWithTimerDisabled holds that the removal works when the installer has not run
// since the boot.
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

// installerStarts returns how often the installer started the service with another binary.
// It does not count systemd's own restarts, which can come before or after the previous
// binary is restored.
func (n *node) installerStarts() int {
	n.t.Helper()
	out := must1(n.Run(n.t.Context(), "sh", "-c",
		"journalctl --sync; journalctl --quiet --boot --output=cat --unit=http01-proxyd-install.service | grep -c "+
			"'^starting http01-proxyd.service' || :"))(n.t)
	return must1(strconv.Atoi(strings.TrimSpace(out)))(n.t)
}

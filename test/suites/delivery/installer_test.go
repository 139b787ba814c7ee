// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

// node is one control-plane host under a machine-config-daemon, for tests of failures.
type node struct {
	*testbed
	*host.Host

	t        *testing.T
	operator *oracle.Operator
	daemon   *mcd.Daemon
	shell    *shell
}

// newNode returns a clean control-plane host. At the end of the test it removes the
// MachineConfigs and compares the host with the earlier snapshot.
func newNode(t *testing.T) *node {
	t.Helper()
	s := useCluster(t)
	n := &node{
		testbed: s, Host: s.ControlPlane[1], t: t, daemon: &mcd.Daemon{Host: s.ControlPlane[1]},
		operator: must1(oracle.Load(t.Context(), mcd.OpenShift420.Release()))(t),
		shell:    newShell(t, map[string]oc.Handler{"oc": debugOn(s.ControlPlane[1])}),
	}
	before := must1(snapshot(t.Context(), n.Host))(t)
	t.Cleanup(func() {
		ctx := context.Background()
		must(t, s.Registry.Up(ctx))
		report := n.daemon.Update(ctx, mcd.Rendered{})
		if report.Degraded != nil || report.Rebooted {
			t.Errorf("the removal: degraded: %v, reboot: %v", report.Degraded, report.Rebooted)
		}
		after := must1(snapshot(ctx, n.Host))(t)
		if diff := before.Diff(after); diff != "" {
			t.Errorf("%s has changed:\n%s", n.Host, diff)
		}
	})
	return n
}

// newServingNode returns a host on which the first release is installed.
func newServingNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.apply(n.images[first])
	n.awaitUnitState(service, "active")
	return n
}

// apply renders the MachineConfigs of an image and updates the host. The daemon must not
// report a failure.
func (n *node) apply(image string, more ...string) {
	n.t.Helper()
	must1(n.shell.run(n.t.Context(), renderer+` render --output-dir rendered --image "$IMAGE" `+strings.Join(more, " "),
		"IMAGE="+image))(n.t)
	policy := []byte(n.shell.read("rendered/10-policy/policy.yaml"))
	n.daemon.Policy = mcd.Policy(must1(n.operator.Policies(n.t.Context(), policy))(n.t))
	n.update()
}

// update applies the MachineConfigs in the shell's directory to the host, which must not reboot.
func (n *node) update() {
	n.t.Helper()
	if report := n.updateOnce(); report.Degraded != nil || report.Rebooted {
		n.t.Fatalf("%+v", report)
	}
}

func (n *node) updateOnce() mcd.Report {
	n.t.Helper()
	files := must1(filepath.Glob(filepath.Join(n.shell.dir, "rendered", "*.yaml")))(n.t)
	var objects [][]byte
	for _, file := range files {
		text := must1(os.ReadFile(file))(n.t)
		objects = append(objects, text)
	}
	rendered := must1(mcd.Read(must1(n.operator.Render(n.t.Context(), objects...))(n.t)))(n.t)
	return n.daemon.Update(n.t.Context(), rendered)
}

// debugOn runs the command of a documented `oc debug node/NAME -- chroot /host COMMAND` on a host.
func debugOn(m *host.Host) oc.Handler {
	return func(ctx context.Context, _ string, args ...string) (string, error) {
		end := slices.Index(args, "--")
		if args[0] != "debug" || end < 0 || len(args) < end+4 || args[end+1] != "chroot" || args[end+2] != "/host" {
			return "", fmt.Errorf("oc %q: no debug node/NAME -- chroot /host COMMAND", args)
		}
		return m.Run(ctx, args[end+3], args[end+4:]...)
	}
}

// addMachineConfig adds a MachineConfig of another owner to the next update.
func (n *node) addMachineConfig(name, spec string) {
	n.t.Helper()
	n.shell.write("rendered/"+name+".yaml", `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: `+name+`
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
`+spec)
}

// dropIn adds a runtime drop-in of a unit until undo or the end of the test. No
// MachineConfig manages it.
func (n *node) dropIn(unit, text string) (undo func()) {
	n.t.Helper()
	dir := "/run/systemd/system/" + unit + ".d"
	do := func(ctx context.Context, script string) {
		must1(n.Input(ctx, text, "sh", "-c", script+" && systemctl daemon-reload"))(n.t)
	}
	do(n.t.Context(), "mkdir -p "+dir+" && cat >"+dir+"/test.conf")
	undo = func() { do(context.Background(), "rm -rf "+dir) }
	n.t.Cleanup(undo)
	return undo
}

func (n *node) starts() int {
	n.t.Helper()
	count := must1(countStarts(n.t.Context(), n.Host))(n.t)
	return count
}

// awaitUnitState waits for a state of a unit.
func (n *node) awaitUnitState(unit, state string) {
	n.t.Helper()
	must(n.t, eventually(n.t, fmt.Sprintf("%s on %s to be %s", unit, n.Host, state), func(ctx context.Context) error {
		got, err := n.Properties(ctx, unit, "ActiveState")
		if err == nil && got["ActiveState"] != state {
			err = fmt.Errorf("it is %s", got["ActiveState"])
		}
		return err
	}))
}

// scriptImage builds an image whose program is a shell script.
func (n *node) scriptImage(name, text string) string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), name)
	must(n.t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o600))
	must(n.t, n.push(n.t.Context(), name, path))
	return n.images[name]
}

// testInstaller is a release on a host that installs unreadyImage.
const testInstaller = "/var/test-installer"

// unreadyImage builds an image whose program can install itself, and runs a command instead of the
// service.
func (n *node) unreadyImage(name, command string) string {
	n.t.Helper()
	must(n.t, n.Install(filepath.Join(os.Getenv(binariesVariable), first), testInstaller, 0o755))
	n.t.Cleanup(func() { must(n.t, n.RemoveFile(testInstaller)) })
	return n.scriptImage(name, "case $1 in version) echo "+name+" ;; install) exec "+testInstaller+" \"$@\" ;; *) "+
		command+" ;; esac\n")
}

// TestRemovalKeepsFoldersOfPackages removes the service from hosts on which a package owns the folder
// of sos, with the unit of the installer and with the provisional one of the script.
func TestRemovalKeepsFoldersOfPackages(t *testing.T) {
	const folder = "/etc/sos/extras.d"
	for name, prepare := range map[string]func(*testing.T) *node{
		"installed": newServingNode,
		"before the first pull": func(t *testing.T) *node {
			t.Helper()
			n := newNode(t)
			must(t, n.Registry.Down(t.Context(), registry.Refused))
			n.apply(n.images[first])
			n.awaitInstaller(t, n.Host, "cannot pull")
			n.awaitUnitState(service, "inactive")
			if text := status(t.Context(), n.Host, service); strings.Contains(text, "failed") {
				t.Errorf("a service without its binary is failed:\n%s", text)
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := prepare(t)
			n.installPackage("sos", folder)
			if report := n.daemon.Update(t.Context(), mcd.Rendered{}); report.Degraded != nil {
				t.Fatal(report.Degraded)
			}
			n.runScript("test -d " + folder + " && test ! -e /usr/local/lib/systemd && test ! -e " + binary)
		})
	}
}

// TestRemovalReboots combines the removal with a change that reboots the node, so that no
// action follows. The remaining files run nothing, and the documented command removes them.
func TestRemovalReboots(t *testing.T) {
	n := newServingNode(t)
	must(t, os.RemoveAll(filepath.Join(n.shell.dir, "rendered")))
	must(t, os.Mkdir(filepath.Join(n.shell.dir, "rendered"), 0o700))
	n.addMachineConfig("50-master-kernel", "  kernelArguments: [quiet]\n")
	if report := n.updateOnce(); report.Degraded != nil || !report.Rebooted || len(report.Actions) > 0 {
		t.Fatalf("%+v", report)
	}
	must(t, n.Reboot(t.Context()))
	must(t, checkLeftovers(t.Context(), n.Host))
	must1(n.shell.run(t.Context(), openDocument(t, lifeGuide, installMark).onlyBlock(t, "Recover")))(t)
	n.daemon.Update(t.Context(), mcd.Rendered{}) // without the argument
}

// checkLeftovers expects that binary and state exist, that no unit of the service runs or
// failed, and that there is no table.
func checkLeftovers(ctx context.Context, m *host.Host) error {
	if _, err := m.Run(ctx, "stat", binary, "/var/lib/http01-proxyd/state"); err != nil {
		return fmt.Errorf("files after the reboot: %w", err)
	}
	for command, want := range map[string]string{
		"systemctl list-units --failed --plain --no-legend":                      "",
		"systemctl list-units --state=active --plain --no-legend " + unitPattern: "",
		"systemctl show --property=LoadState --value " + service:                 "not-found\n",
		"systemctl show --property=LoadState --value " + timer:                   "not-found\n",
		"nft list tables | grep http01-proxyd || true":                           "",
	} {
		got, err := m.Run(ctx, "sh", "-c", command)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s on %s: %q, want %q", command, m, got, want)
		}
	}
	return nil
}

// installPackage installs an RPM that owns a folder, until the test ends. Then the folder and its
// parent are removed.
func (n *node) installPackage(name, folder string) {
	n.t.Helper()
	spec := fmt.Sprintf(
		"Name: %s\nVersion: 1\nRelease: 1\nSummary: a folder\nLicense: none\nBuildArch: noarch\n%%description\na folder\n"+
			"%%install\nmkdir -p %%{buildroot}%[2]s\n%%files\n%%dir %[2]s\n", name, folder)
	n.t.Cleanup(func() {
		must1(n.Run(context.Background(), "sh", "-c", "rpm --erase "+name+" && rm -rf /root/rpm && rmdir "+
			filepath.Dir(folder)))(n.t)
	})
	n.runScript("mkdir /root/rpm")
	must(n.t, n.WriteFile("/root/rpm/spec", spec, 0o600))
	n.runScript(
		"rpmbuild --quiet --define '_topdir /root/rpm' -bb /root/rpm/spec && rpm --upgrade --nodeps " +
			"/root/rpm/RPMS/noarch/*.rpm && rpm --query --file " + folder)
}

// TestTimerRetries holds that the timer installs what the first attempt could not, and that a host with the
// right binary boots without the registry.
func TestTimerRetries(t *testing.T) {
	n := newNode(t)
	must(t, n.Registry.Down(t.Context(), registry.Refused))
	n.dropIn(timer, "[Timer]\nOnUnitInactiveSec=1s\n")
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "cannot pull")
	must(t, n.Registry.Up(t.Context()))
	n.awaitUnitState(service, "active")
	n.awaitInstaller(t, n.Host, "is installed")
	n.awaitUnitState(timer, "inactive")

	must(t, n.Registry.Down(t.Context(), registry.Refused))
	pulls := n.Registry.Pulls()
	must(t, n.Reboot(t.Context()))
	n.awaitInstaller(t, n.Host, "is installed, unchanged")
	n.awaitUnitState(service, "active")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if diff := cmp.Diff(registry.Pulls{}, n.Registry.Pulls().Since(pulls)); diff != "" {
		t.Errorf("requests to the registry (-want +got):\n%s", diff)
	}
}

// TestPullTimeout holds that a hanging pull times out and that a killed one does not affect
// the next.
func TestPullTimeout(t *testing.T) {
	n := newServingNode(t)
	before := n.starts()
	must(t, n.Registry.Down(t.Context(), registry.Stalled))
	undo := n.dropIn(installer, "[Service]\nEnvironment=HTTP01_PROXYD_PULL_TIMEOUT=2\n")
	n.apply(n.images[second])
	n.awaitInstaller(t, n.Host, "cannot pull")

	undo()
	_, err := n.Run(t.Context(), "systemctl", "start", "--no-block", installer)
	must(t, err)
	must(t, eventually(t, "a pull under way", func(ctx context.Context) error {
		_, err := n.Run(ctx, "pgrep", "--full", "podman .* pull ")
		return err
	}))
	must1(n.Run(t.Context(), "systemctl", "kill", "--signal=KILL", installer))(t)
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}
	must(t, n.checkRelease(t.Context(), n.Host, first))
	must(t, n.Registry.Up(t.Context()))
	must1(n.Run(t.Context(), "systemctl", "restart", installer))(t)
	must(t, n.checkRelease(t.Context(), n.Host, second))
}

// TestRefusedImages holds that unusable images are not installed and that the journal has
// the reason.
func TestRefusedImages(t *testing.T) {
	n := newServingNode(t)
	before := n.starts()
	n.shell.write("elsewhere", strings.Repeat("0", 64)+"  http01-proxyd-linux-s390x\n")
	n.shell.write("wrong", strings.ReplaceAll(n.checksums[second], n.sums[second], strings.Repeat("0", 64)))
	broken := n.scriptImage("broken", "exit 1\n")
	withoutInstaller := n.scriptImage("without-installer", "[ \"$1\" = version ] || exit 3\n")
	for name, tt := range map[string]struct {
		image string
		more  []string
		want  string
	}{
		"no such image":                     {broken[:len(broken)-8] + "00000000", nil, "cannot pull"},
		"a program that does not run":       {broken, nil, "does not run on this"},
		"a program without an installer":    {withoutInstaller, nil, "cannot install itself (exit code 3)"},
		"wrong checksum":                    {n.images[second], []string{"--sums", "wrong"}, "has the checksum"},
		"no checksum for this architecture": {n.images[second], []string{"--sums", "elsewhere"}, "has no checksum for"},
	} {
		t.Run(name, func(t *testing.T) {
			n.apply(tt.image, tt.more...)
			n.awaitInstaller(t, n.Host, tt.want, "status=1/FAILURE")
			must(t, n.checkRelease(t.Context(), n.Host, first))
		})
	}
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "is installed, unchanged")
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}
}

// TestBinaryNotReady holds that a binary that does not become ready is replaced by the
// previous one and is not tried again automatically. It costs one attempt, although several
// units of the update request one.
func TestBinaryNotReady(t *testing.T) {
	n := newServingNode(t)
	attempts := n.installerStarts()
	n.addMachineConfig("99-master-environment", otherEnvironment)
	n.apply(n.unreadyImage("bad", "exit 1"))
	n.awaitUnitState(timer, "inactive")
	n.awaitInstaller(t, n.Host, "the previous binary is restored and serves", "status=1/FAILURE")
	n.awaitUnitState(service, "active")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if got := n.installerStarts() - attempts; got != 1 {
		t.Errorf("the installer started the service %d times with the new binary, want once", got)
	}

	before := n.starts()
	n.runScript("systemctl start " + timer)
	n.awaitInstaller(t, n.Host, "the previous binary is restored and serves", "status=1/FAILURE")
	n.awaitUnitState(timer, "inactive")
	if got := n.starts(); got != before {
		t.Errorf("the timer started the service %d times", got-before)
	}
	n.apply(n.images[second])
	must(t, n.checkRelease(t.Context(), n.Host, second))
}

// TestInstallerOfReleaseFails holds that a release whose installer always fails can be upgraded. The
// real command fails, because it cannot write its state.
func TestInstallerOfReleaseFails(t *testing.T) {
	n := newServingNode(t)
	must(t, n.Install(filepath.Join(os.Getenv(binariesVariable), third), testInstaller, 0o755))
	t.Cleanup(func() { must(t, n.RemoveFile(testInstaller)) })
	stuck := n.scriptImage("stuck", `[ "$1 $2" != "install " ] || export STATE_DIRECTORY=/proc/absent`+"\nexec "+
		testInstaller+" \"$@\"\n")
	n.apply(stuck)
	n.awaitInstaller(t, n.Host, stuck+" is installed")
	n.runScript("rm " + binary + ".previous")
	n.apply(n.images[second])
	n.awaitInstaller(t, n.Host, n.images[second]+" is installed")
	must(t, n.checkRelease(t.Context(), n.Host, second))
	n.runScript("journalctl --sync && journalctl --unit=" + installer + " | grep 'write the state: mkdir /proc/absent'")
}

// TestChangedByHand: the extracted binary replaces one that cannot run, which never becomes the
// previous binary, and one that an administrator copied. Only the second case is a restart of
// the service.
func TestChangedByHand(t *testing.T) {
	n := newServingNode(t)
	before := n.starts()
	must(t, n.WriteFile(binary, "damaged\n", 0o755))
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "is installed: http01-proxyd")
	n.runScript("test ! -e " + binary + ".previous && " + binary + " version")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}

	must(t, n.Install(filepath.Join(os.Getenv(binariesVariable), second), binary+".copy", 0o755))
	n.runScript("mv " + binary + ".copy " + binary + " && systemctl restart " + service)
	must(t, n.checkRelease(t.Context(), n.Host, second))
	before = n.starts()
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "is installed")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	n.runScript("systemctl restart " + installer)
	n.awaitInstaller(t, n.Host, "is installed, unchanged")
	if got := n.starts() - before; got != 1 {
		t.Errorf("the service started %d times, want once", got)
	}
}

// TestServiceDisabled holds that a service that is disabled only while an update rewrites its
// unit continues, although an attempt of the installer comes between. A MachineConfig of
// another owner can disable it: the daemon itself does not stop a unit that it disables.
func TestServiceDisabled(t *testing.T) {
	n := newServingNode(t)
	before := n.starts()
	n.runScript("systemctl disable " + service + " && systemctl start --no-block " + installer)
	n.awaitInstaller(t, n.Host, "is disabled: waiting up to 1m0s")
	n.awaitUnitState(service, "active")
	n.awaitUnitState(timer, "active")
	n.runScript("systemctl enable " + service)
	n.awaitInstaller(t, n.Host, "is installed, unchanged")
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}

	n.dropIn(installer, "[Service]\nEnvironment=HTTP01_PROXYD_SETTLE_TIME=1\n")
	n.addMachineConfig("99-master-off", `    systemd:
      units:
      - {name: http01-proxyd.service, enabled: false}
`)
	n.update()
	n.awaitUnitState(service, "inactive")
	n.awaitInstaller(t, n.Host, "is disabled: stopped")
	must(t, os.Remove(filepath.Join(n.shell.dir, "rendered", "99-master-off.yaml")))
	n.update()
	n.awaitUnitState(service, "active")
}

// TestHostWithoutVIPs holds that a host without keepalived, such as a worker, needs no
// configuration and gets no table.
func TestHostWithoutVIPs(t *testing.T) {
	n := newNode(t)
	must1(n.Run(t.Context(), "sh", "-c", "systemctl stop keepalived && mv /etc/keepalived /root/keepalived"))(t)
	t.Cleanup(func() {
		must1(n.Run(context.Background(), "sh", "-c", "mv /root/keepalived /etc/keepalived && systemctl start keepalived"))(t)
	})
	n.apply(n.images[first])
	must(t, os.Remove(filepath.Join(n.shell.dir, "rendered", "98-master-http01-proxyd-config.yaml")))
	n.update()
	got := must1(n.AwaitState(t.Context(), n.Host, "NotRequired"))(t)
	if got.Condition().Status != "True" || got.Table.Present {
		t.Errorf("%+v, table: %+v", got.Condition(), got.Table)
	}
	if _, err := n.Run(t.Context(), "stat", "/etc/http01-proxyd/config.yaml"); err == nil {
		t.Error("the host has a configuration file")
	}
}

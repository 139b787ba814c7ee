// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// installMethod tests one installation method on the VIP holder, where an issued
// certificate shows that the service serves.
type installMethod struct {
	*testbed
	*host.Host
	*shell

	t      *testing.T
	guide  *commandBlocks
	bin    string // output directory of `make build`
	before host.Snapshot
}

func newInstallMethod(t *testing.T, s *testbed, guide string, handlers map[string]oc.Handler) *installMethod {
	t.Helper()
	w := &installMethod{
		testbed: s, Host: s.ControlPlane[0], shell: newShell(t, handlers), t: t,
		guide: openDocument(t, guide, installMark), bin: t.TempDir(),
	}
	var err error
	w.before, err = snapshot(t.Context(), w.Host)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			w.cleanUp(context.Background())
		}
	})
	return w
}

// cleanUp cleans up the host for the next test after a failure.
func (w *installMethod) cleanUp(ctx context.Context) {
	if !w.On() {
		must(w.t, w.Boot(ctx))
	}
	_, err := w.Run(ctx, "sh", "-c", "systemctl disable --now "+service+"; rm -rf "+inOSImage+" "+binary+
		" /usr/local/lib/systemd "+fromIgnition+" /etc/http01-proxyd /etc/systemd/system/"+service+
		"* /var/lib/http01-proxyd /var/lib/private/http01-proxyd"+
		"; podman rm --all --force; podman image prune --all --force; journalctl --update-catalog; systemctl daemon-reload")
	must(w.t, err)
}

// block runs one block of a section.
func (w *installMethod) block(section string, i, of int, env ...string) {
	w.t.Helper()
	// The document's rm commands run on the host.
	out := must1(w.run(w.t.Context(), "rm() { host rm \"$@\"; }\n"+w.guide.block(w.t, section, i, of), env...))(w.t)
	w.t.Log(out)
}

// runOnHost runs a command on the host and ends the test on its error.
func (w *installMethod) runOnHost(name string, args ...string) string {
	w.t.Helper()
	out := must1(w.Run(w.t.Context(), name, args...))(w.t)
	return strings.TrimSpace(out)
}

// reboot reboots the host as the machine-config-daemon does after an update.
func (w *installMethod) reboot() {
	w.t.Helper()
	must(w.t, w.Reboot(w.t.Context()))
	must(w.t, w.AwaitVIPs(w.t.Context()))
}

// expectServing waits until the service runs a program, and orders a certificate.
func (w *installMethod) expectServing(program, sum, label string) {
	w.t.Helper()
	must(w.t, eventually(w.t, program+" to serve", func(ctx context.Context) error {
		text, err := w.Run(ctx, program, "status", "-o", "json")
		if err != nil {
			return err
		}
		got, err := lab.ParseStatus(text)
		if err == nil && got.Condition().Reason != "Serving" {
			err = fmt.Errorf("%s: %s", got.Condition().Reason, got.Condition().Message)
		}
		return err
	}))
	// The controller sends STATUS= to systemd after it published the same state.
	must(w.t, eventually(w.t, "systemctl status to show Serving", func(ctx context.Context) error {
		if text := status(ctx, w.Host, service); !strings.Contains(text, "active (running)") ||
			!strings.Contains(text, "Serving: ") {
			return fmt.Errorf("systemctl status:\n%s", text)
		}
		return nil
	}))
	got := must1(runningChecksum(w.t.Context(), w.Host))(w.t)
	if got != sum {
		w.t.Errorf("running program %s, want %s", got, sum)
	}
	must1(w.Certificate(w.t.Context(), label))(w.t)
}

// expectUnchanged compares the host with the snapshot from before.
func (w *installMethod) expectUnchanged() {
	w.t.Helper()
	after := must1(snapshot(w.t.Context(), w.Host))(w.t)
	if diff := w.before.Diff(after); diff != "" {
		w.t.Errorf("%s has changed:\n%s", w.Host, diff)
	}
}

// documentedYAML returns the YAML block of a kind in osImageGuide.
func documentedYAML(t *testing.T, kind string) string {
	t.Helper()
	all := must1(readDocument(osImageGuide))(t)
	i := slices.IndexFunc(all, func(f fenced) bool { return f.mark == "yaml "+kind })
	if i < 0 {
		t.Fatalf("%s shows no %s", osImageGuide, kind)
	}
	return all[i].text
}

// builtChecksum returns the checksum of the output of `make build`.
func (w *installMethod) builtChecksum() string {
	w.t.Helper()
	content := must1(os.ReadFile(filepath.Join(w.bin, "http01-proxyd")))(w.t)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// commands returns the host's commands for the shell: systemctl and journalctl by name, and
// others through "host".
func commands(m *host.Host) map[string]oc.Handler {
	byName := func(name string) oc.Handler {
		return func(ctx context.Context, _ string, args ...string) (string, error) { return m.Run(ctx, name, args...) }
	}
	return map[string]oc.Handler{
		"systemctl": byName("systemctl"), "journalctl": byName("journalctl"),
		"host": func(ctx context.Context, _ string, args ...string) (string, error) {
			return m.Run(ctx, args[0], args[1:]...)
		},
	}
}

// TestStandaloneHost installs the last release, upgrades it to this source under load, and removes this.
func TestStandaloneHost(t *testing.T) {
	s := useCluster(t)
	w := newInstallMethod(t, s, systemdGuide, commands(s.ControlPlane[0]))
	// Commands of the administrator on the host work on its disk.
	build := "MAKE_ARGUMENTS=DESTDIR=" + w.Root + " BIN=" + w.bin + " BINARY=" + w.bin + "/http01-proxyd"
	w.block("Install", 0, 1, build, "REPOSITORY="+sourceOfLastRelease())
	w.expectServing(binary, w.builtChecksum(), "by-itself")
	w.reboot()
	w.expectServing(binary, w.builtChecksum(), "by-itself-booted")
	pid := w.runOnHost("systemctl", "show", "--property=MainPID", "--value", service)
	load := must1(s.Lab.Validate(t.Context(), "load."+s.Lab.Domain, loadInterval))(t)
	w.block("Upgrade", 0, 1, build)
	w.expectServing(binary, w.builtChecksum(), "by-itself-upgraded")
	expectNoneLost(t, load)
	w.runOnHost("journalctl", "--update-catalog") // with DESTDIR, a package's scripts do this
	w.expectJournalCatalog(t, w.Host)
	if w.runOnHost("systemctl", "show", "--property=MainPID", "--value", service) == pid {
		t.Error("the upgrade has not restarted the service")
	}

	// With DESTDIR make does not call systemctl. Here it must call the host's.
	inside := w.Root + "/usr/local"
	directory := "MAKE_ARGUMENTS=PREFIX=" + inside + " UNITDIR=" + inside + "/lib/systemd/system CATALOGDIR=" + inside +
		"/lib/systemd/catalog"
	if out, err := w.run(t.Context(), "make uninstall", directory); err == nil ||
		!strings.Contains(out, "is active or enabled") {
		t.Errorf("make uninstall of a running service: %v\n%s", err, out)
	}
	w.expectServing(binary, w.builtChecksum(), "by-itself-still")
	w.block("Remove", 0, 1, directory)
	// make keeps the directories that it created, because others may use them.
	w.runOnHost("rmdir", "/usr/local/lib/systemd/catalog", "/usr/local/lib/systemd/system", "/usr/local/lib/systemd")
	w.expectUnchanged()
}

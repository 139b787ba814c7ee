// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// contents lists the package's files.
const contents = `drwxr-xr-x root:root /etc/http01-proxyd
-rwxr-xr-x root:root /usr/bin/http01-proxyd
-rw-r--r-- root:root /usr/lib/systemd/catalog/http01-proxyd.catalog
-rw-r--r-- root:root /usr/lib/systemd/system/http01-proxyd-table.service
-rw-r--r-- root:root /usr/lib/systemd/system/http01-proxyd.service
-rw-r--r-- root:root /usr/share/bash-completion/completions/http01-proxyd
-rw-r--r-- root:root /usr/share/fish/vendor_completions.d/http01-proxyd.fish
drwxr-xr-x root:root /usr/share/licenses/http01-proxyd
-rw-r--r-- root:root /usr/share/licenses/http01-proxyd/LICENSE
-rw-r--r-- root:root /usr/share/man/man5/http01-proxyd.yaml.5
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-check.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-cleanup.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-explain.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-run.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-status.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-trace.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd-version.8
-rw-r--r-- root:root /usr/share/man/man8/http01-proxyd.8
-rw-r--r-- root:root /usr/share/zsh/site-functions/_http01-proxyd`

// serving is a configuration with a table in the kernel and MicroShift's internal API
// address on lo.
const (
	vip        = "192.0.2.5"
	serving    = "vips: {api: [" + vip + "], ingress: [192.0.2.6]}\nmicroshift: {manageAdvertiseAddress: true}\n"
	microShift = "/etc/microshift"
	internal   = "10.44.0.0"
)

// TestPreset holds that the installation enables the service on a host whose presets list
// it, and that the removal disables it also without a running systemd, as in an image
// build.
func TestPreset(t *testing.T) {
	h := useTestbed(t).edge
	const preset = "/etc/systemd/system-preset/50-edge.preset"
	must(t, h.WriteFile(preset, "enable "+service+"\n", 0o644))
	t.Cleanup(func() { must(t, h.RemoveFile(preset)) })
	runOnHost(t, h, "rpm", "--upgrade", packageFile(secondInRPM))
	expectProperties(t, h, service, map[string]string{"UnitFileState": "enabled", "ActiveState": "inactive"})

	runOnHost(t, h, "unshare", "--mount", "sh", "-ec", "mount -t tmpfs none /run && rpm --erase http01-proxyd")
	if got := runOnHost(t, h, "find", "/etc/systemd/system", "-name", "http01-proxyd*"); got != "" {
		t.Errorf("left after the removal: %s", got)
	}
	runOnHost(t, h, "systemctl", "daemon-reload")
	expectProperties(t, h, service, map[string]string{"LoadState": "not-found"})
}

// TestLifecycle installs, upgrades, downgrades and removes the package.
func TestLifecycle(t *testing.T) {
	s := useTestbed(t)
	h := s.edge
	sums := checksums(t, h)
	expectSystemdRequired(t, h)
	must(t, h.WriteFile(microShift+"/config.yaml", "node: {nodeIP: 192.0.2.11}\n", 0o644))
	t.Cleanup(func() { must(t, h.RemoveFile(microShift)) })
	before := snapshot(t, h)

	runOnHost(t, h, "rpm", "--upgrade", packageFile(firstInRPM))
	expectInstalled(t, h)
	expectVerified(t, h)
	// The host's presets enable only listed units, and the service is not listed.
	expectProperties(t, h, service, map[string]string{
		"UnitFileState": "disabled", "ActiveState": "inactive",
		"NeedDaemonReload": "no",
	})

	beginToServe(t, h, sums[first])
	eventually(t, "the internal address", func() error { return checkOnLo(t, h, true) })
	expectVerified(t, h) // the administrator's configuration is not a change of the package

	must(t, s.runDocumented(t.Context(), rpmGuide, 1))
	expectBinary(t, h, sums[second])
	expectProperties(t, h, service, map[string]string{
		"UnitFileState": "enabled", "ActiveState": "active",
		"NeedDaemonReload": "no",
	})
	expectProperties(t, h, companion, map[string]string{"ActiveState": "active", "NeedDaemonReload": "no"})
	must(t, checkTable(t, h, true))
	must(t, checkOnLo(t, h, true))
	expectVerified(t, h)
	if got, err := h.ReadFile(config); err != nil || got != serving {
		t.Errorf("after an upgrade the configuration is %q (%v)", got, err)
	}

	// A stopped service stays stopped.
	runOnHost(t, h, "systemctl", "stop", service)
	eventually(t, "no table", func() error { return checkTable(t, h, false) })
	must(t, checkOnLo(t, h, false))
	runOnHost(t, h, "rpm", "--upgrade", "--oldpackage", packageFile(firstInRPM))
	expectProperties(t, h, service, map[string]string{"UnitFileState": "enabled", "ActiveState": "inactive"})
	runOnHost(t, h, "systemctl", "start", service)
	expectBinary(t, h, sums[first])
	eventually(t, "a table", func() error { return checkTable(t, h, true) })

	expectTamperingDetected(t, h)

	// The service is killed and stopped at once, so the companion must remove table and
	// address.
	must(t, checkOnLo(t, h, true))
	runOnHost(t, h, "systemctl", "kill", "--signal=SIGSTOP", service)
	runOnHost(t, h, "systemctl", "kill", "--signal=SIGKILL", service)
	must(t, s.runDocumented(t.Context(), rpmGuide, 2))
	must(t, checkTable(t, h, false))
	must(t, checkOnLo(t, h, false))
	expectProperties(t, h, service, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	expectProperties(t, h, companion, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	runOnHost(t, h, "ip", "address", "del", vip+"/32", "dev", host.Link)
	if diff := before.Diff(snapshot(t, h)); diff != "" {
		t.Errorf("the host has changed after the removal:\n%s", diff)
	}
}

// beginToServe enables the service, whose binary has this checksum, and gives the host a VIP.
func beginToServe(t *testing.T, h *host.Host, sum string) {
	t.Helper()
	runOnHost(t, h, "systemctl", "enable", "--now", service)
	awaitStatus(t, h, "NotRequired: ")
	expectBinary(t, h, sum)
	must(t, h.WriteFile(config, serving, 0o644))
	runOnHost(t, h, "ip", "address", "add", vip+"/32", "dev", host.Link)
	eventually(t, "a table", func() error { return checkTable(t, h, true) })
}

// TestRemovalResetsFailedUnit holds that the removal resets a failed unit, which systemd
// lists until then, also without its file.
func TestRemovalResetsFailedUnit(t *testing.T) {
	h := useTestbed(t).edge
	const dropin = "/etc/systemd/system/" + service + ".d/10-once.conf"
	runOnHost(t, h, "rpm", "--upgrade", packageFile(secondInRPM))
	must(t, h.WriteFile(dropin, "[Service]\nRestart=no\n", 0o644))
	runOnHost(t, h, "systemctl", "daemon-reload")
	runOnHost(t, h, "systemctl", "start", service)
	runOnHost(t, h, "systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", service)
	eventually(t, "a failed unit", func() error {
		got, err := h.Properties(t.Context(), service, "ActiveState")
		if err == nil && got["ActiveState"] != "failed" {
			err = fmt.Errorf("it is %v", got)
		}
		return err
	})
	runOnHost(t, h, "rm", "-r", filepath.Dir(dropin))
	runOnHost(t, h, "rpm", "--erase", "http01-proxyd")
	expectProperties(t, h, service, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	if got := runOnHost(t, h, "systemctl", "list-units", "--all", "--plain", "--no-legend", "--state=failed",
		"http01-proxyd*"); got != "" {
		t.Errorf("systemd still lists %s", got)
	}
}

// expectSystemdRequired expects that the package requires systemd.
func expectSystemdRequired(t *testing.T, h *host.Host) {
	t.Helper()
	_, err := h.Run(t.Context(), "rpm", "--upgrade", "--test", "--dbpath=/root/empty", packageFile(firstInRPM))
	if err == nil || !strings.Contains(err.Error(), "systemd >= 247 is needed by http01-proxyd-"+firstInRPM) {
		t.Errorf("without systemd: %v", err)
	}
}

// expectInstalled expects the package's files on the disk.
func expectInstalled(t *testing.T, h *host.Host) {
	t.Helper()
	got := runOnHost(t, h, "sh", "-c", "rpm --query --list http01-proxyd | sort | xargs stat --format='%A %U:%G %n'")
	if diff := cmp.Diff(contents, got); diff != "" {
		t.Errorf("the package's files (-want +got):\n%s", diff)
	}
	if got := runOnHost(t, h, "rpm", "--query", "http01-proxyd"); got != "http01-proxyd-"+firstInRPM+"."+rpmArchitecture {
		t.Errorf("package name %s", got)
	}
	if got := runOnHost(t, h, "rpm", "--query", "--licensefiles", "http01-proxyd"); !strings.HasSuffix(got, "/LICENSE") {
		t.Errorf("licence files: %q", got)
	}
	if got := runOnHost(t, h, "systemctl", "show", "--property=ExecStart,ConditionFileIsExecutable",
		service); !strings.Contains(got, "path="+binary+" ; argv[]="+binary+" run ") {
		t.Errorf("the unit starts %s", got)
	}
	if got := runOnHost(t, h, "sh", "-c", "grep -l /usr/local /usr/lib/systemd/system/http01-proxyd*; true"); got != "" {
		t.Errorf("files with the paths of `make install`: %s", got)
	}
	expectJournalCatalog(t, h)
}

// expectJournalCatalog expects that journalctl -x has the catalog.
func expectJournalCatalog(t *testing.T, h *host.Host) {
	t.Helper()
	if got := runOnHost(t, h, "journalctl", "--list-catalog"); !strings.Contains(got, " http01-proxyd: ") {
		t.Error("journalctl has no catalog of http01-proxyd")
	}
}

// expectVerified expects that rpm verifies every file.
func expectVerified(t *testing.T, h *host.Host) {
	t.Helper()
	if out, err := h.Run(t.Context(), "rpm", "--verify", "http01-proxyd"); err != nil || out != "" {
		t.Errorf("rpm -V: %v\n%s", err, out)
	}
}

// expectTamperingDetected expects that rpm reports a changed file, and repairs it.
func expectTamperingDetected(t *testing.T, h *host.Host) {
	t.Helper()
	runOnHost(t, h, "sh", "-c", "echo >>/usr/lib/systemd/system/"+service+" && chmod 0600 "+binary)
	out, err := h.Run(t.Context(), "rpm", "--verify", "http01-proxyd")
	if err == nil || !strings.Contains(out, "S.5....T.    /usr/lib/systemd/system/"+service) ||
		!strings.Contains(out, ".M.......    "+binary) {
		t.Errorf("rpm -V: %v\n%s", err, out)
	}
	runOnHost(t, h, "rpm", "--upgrade", "--force", packageFile(firstInRPM))
	expectVerified(t, h)
	awaitStatus(t, h, "UpstreamUnreachable: ")
}

// checkTable returns an error unless the kernel has our table, or has none, as required.
func checkTable(t *testing.T, h *host.Host, required bool) error {
	t.Helper()
	out, err := h.Run(t.Context(), "nft", "list", "tables")
	if err == nil && strings.Contains(out, "http01-proxyd") != required {
		err = errors.New("the tables are: " + out)
	}
	return err
}

// checkOnLo returns an error unless the internal address is on lo, or is not, as required.
func checkOnLo(t *testing.T, h *host.Host, required bool) error {
	t.Helper()
	out, err := h.Run(t.Context(), "ip", "-o", "address", "show", "dev", "lo")
	if err == nil && strings.Contains(out, " "+internal+"/32 ") != required {
		err = errors.New("lo has: " + out)
	}
	return err
}

// snapshot returns a snapshot of the host without rpm's database.
func snapshot(t *testing.T, h *host.Host) host.Snapshot {
	t.Helper()
	s, err := h.Snapshot(t.Context(), "http01-proxyd*")
	must(t, err)
	s.Files = maps.Clone(s.Files)
	maps.DeleteFunc(s.Files, func(path, _ string) bool { return strings.HasPrefix(path, "/root/.rpmdb") })
	return s
}

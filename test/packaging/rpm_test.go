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

	"github.com/http01-proxyd/http01-proxyd/test/host"
)

// contents is what the package puts onto a host, and nothing else is its own.
const contents = `drwxr-xr-x root:root /etc/http01-proxyd
-rwxr-xr-x root:root /usr/bin/http01-proxyd
-rw-r--r-- root:root /usr/lib/systemd/catalog/http01-proxyd.catalog
-rw-r--r-- root:root /usr/lib/systemd/system/http01-proxyd-table.service
-rw-r--r-- root:root /usr/lib/systemd/system/http01-proxyd.service
drwxr-xr-x root:root /usr/share/licenses/http01-proxyd
-rw-r--r-- root:root /usr/share/licenses/http01-proxyd/LICENSE`

// serving is a configuration with which there is a table in the kernel, and
// MicroShift's internal API address on lo.
const (
	vip        = "192.0.2.5"
	serving    = "vips: {api: [" + vip + "], ingress: [192.0.2.6]}\nmicroshift: {manageAdvertiseAddress: true}\n"
	microShift = "/etc/microshift"
	internal   = "10.44.0.0"
)

// TestPreset: a host whose presets name the service has it enabled by its
// installation; and where no systemd runs, as while an image is built, its
// removal disables it all the same.
func TestPreset(t *testing.T) {
	h := use(t).edge
	const preset = "/etc/systemd/system-preset/50-edge.preset"
	must(t, h.WriteFile(preset, "enable "+service+"\n", 0o644))
	t.Cleanup(func() { must(t, h.RemoveFile(preset)) })
	on(t, h, "rpm", "--upgrade", packageFile(secondInRPM))
	is(t, h, service, map[string]string{"UnitFileState": "enabled", "ActiveState": "inactive"})

	on(t, h, "unshare", "--mount", "sh", "-ec", "mount -t tmpfs none /run && rpm --erase http01-proxyd")
	if got := on(t, h, "find", "/etc/systemd/system", "-name", "http01-proxyd*"); got != "" {
		t.Errorf("its removal leaves %s", got)
	}
	on(t, h, "systemctl", "daemon-reload")
	is(t, h, service, map[string]string{"LoadState": "not-found"})
}

// TestLife installs, upgrades, downgrades and removes the package.
func TestLife(t *testing.T) {
	s := use(t)
	h := s.edge
	sums := map[string]string{}
	for _, release := range releases() {
		sums[release] = on(t, h, "sh", "-c", "sha256sum </root/"+release)
	}
	refusedWithoutSystemd(t, h)
	must(t, h.WriteFile(microShift+"/config.yaml", "node: {nodeIP: 192.0.2.11}\n", 0o644))
	t.Cleanup(func() { must(t, h.RemoveFile(microShift)) })
	before := snapshot(t, h)

	on(t, h, "rpm", "--upgrade", packageFile(firstInRPM))
	installed(t, h)
	asMakeInstalls(t, h)
	intact(t, h)
	// The host's presets enable what they name, and this is not among them.
	is(t, h, service, map[string]string{"UnitFileState": "disabled", "ActiveState": "inactive", "NeedDaemonReload": "no"})

	on(t, h, "systemctl", "enable", "--now", service)
	awaitStatus(t, h, "NotRequired: ")
	runs(t, h, sums[first])
	must(t, h.WriteFile(config, serving, 0o644))
	on(t, h, "ip", "address", "add", vip+"/32", "dev", host.Link)
	eventually(t, "a table", func() error { return table(t, h, true) })
	eventually(t, "the internal address", func() error { return onLo(t, h, true) })
	intact(t, h) // the admin's configuration is no change of the package

	must(t, s.documented(t.Context(), "By RPM", 1))
	runs(t, h, sums[second])
	is(t, h, service, map[string]string{"UnitFileState": "enabled", "ActiveState": "active", "NeedDaemonReload": "no"})
	is(t, h, companion, map[string]string{"ActiveState": "active", "NeedDaemonReload": "no"})
	must(t, table(t, h, true))
	must(t, onLo(t, h, true))
	intact(t, h)
	if got, err := h.ReadFile(config); err != nil || got != serving {
		t.Errorf("after an upgrade the configuration is %q (%v)", got, err)
	}

	// What is stopped stays stopped.
	on(t, h, "systemctl", "stop", service)
	eventually(t, "no table", func() error { return table(t, h, false) })
	must(t, onLo(t, h, false))
	on(t, h, "rpm", "--upgrade", "--oldpackage", packageFile(firstInRPM))
	is(t, h, service, map[string]string{"UnitFileState": "enabled", "ActiveState": "inactive"})
	on(t, h, "systemctl", "start", service)
	runs(t, h, sums[first])
	eventually(t, "a table", func() error { return table(t, h, true) })

	tampered(t, h)

	// It is killed and stopped at once: its companion is left with table and address.
	must(t, onLo(t, h, true))
	on(t, h, "systemctl", "kill", "--signal=SIGSTOP", service)
	on(t, h, "systemctl", "kill", "--signal=SIGKILL", service)
	must(t, s.documented(t.Context(), "By RPM", 2))
	must(t, table(t, h, false))
	must(t, onLo(t, h, false))
	is(t, h, service, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	is(t, h, companion, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	on(t, h, "ip", "address", "del", vip+"/32", "dev", host.Link)
	if diff := before.Diff(snapshot(t, h)); diff != "" {
		t.Errorf("after its removal the host is not what it was:\n%s", diff)
	}
}

// TestFailedIsForgotten: systemd keeps a unit that has failed in its books, and lists it
// as such, until somebody resets it, whether its file is there or not.
func TestFailedIsForgotten(t *testing.T) {
	h := use(t).edge
	const dropin = "/etc/systemd/system/" + service + ".d/10-once.conf"
	on(t, h, "rpm", "--upgrade", packageFile(secondInRPM))
	must(t, h.WriteFile(dropin, "[Service]\nRestart=no\n", 0o644))
	on(t, h, "systemctl", "daemon-reload")
	on(t, h, "systemctl", "start", service)
	on(t, h, "systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", service)
	eventually(t, "a failed unit", func() error {
		got, err := h.Properties(t.Context(), service, "ActiveState")
		if err == nil && got["ActiveState"] != "failed" {
			err = fmt.Errorf("it is %v", got)
		}
		return err
	})
	on(t, h, "rm", "-r", filepath.Dir(dropin))
	on(t, h, "rpm", "--erase", "http01-proxyd")
	is(t, h, service, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	if got := on(t, h, "systemctl", "list-units", "--all", "--plain", "--no-legend", "--state=failed", "http01-proxyd*"); got != "" {
		t.Errorf("systemd still lists %s", got)
	}
}

// refusedWithoutSystemd: the package says what it needs, where rpm knows of nothing.
func refusedWithoutSystemd(t *testing.T, h *host.Host) {
	t.Helper()
	_, err := h.Run(t.Context(), "rpm", "--upgrade", "--test", "--dbpath=/root/empty", packageFile(firstInRPM))
	if err == nil || !strings.Contains(err.Error(), "systemd >= 247 is needed by http01-proxyd-"+firstInRPM) {
		t.Errorf("a host without systemd gets %v", err)
	}
}

// installed demands the package's files, as they are on the disk.
func installed(t *testing.T, h *host.Host) {
	t.Helper()
	got := on(t, h, "sh", "-c", "rpm --query --list http01-proxyd | sort | xargs stat --format='%A %U:%G %n'")
	if diff := cmp.Diff(contents, got); diff != "" {
		t.Errorf("the package's files (-want +got):\n%s", diff)
	}
	if got := on(t, h, "rpm", "--query", "http01-proxyd"); got != "http01-proxyd-"+firstInRPM+"."+rpmArchitecture {
		t.Errorf("rpm calls it %s", got)
	}
	if got := on(t, h, "rpm", "--query", "--licensefiles", "http01-proxyd"); !strings.HasSuffix(got, "/LICENSE") {
		t.Errorf("the licence is %q", got)
	}
	if got := on(t, h, "systemctl", "show", "--property=ExecStart,ConditionFileIsExecutable", service); !strings.Contains(got, "path="+binary+" ; argv[]="+binary+" run ") {
		t.Errorf("it is started by %s", got)
	}
	if got := on(t, h, "sh", "-c", "grep -l /usr/local /usr/lib/systemd/system/http01-proxyd*; true"); got != "" {
		t.Errorf("these name what `make install` has: %s", got)
	}
	explained(t, h)
}

// explained: journalctl -x knows the journal's entries.
func explained(t *testing.T, h *host.Host) {
	t.Helper()
	if got := on(t, h, "journalctl", "--list-catalog"); !strings.Contains(got, " http01-proxyd: ") {
		t.Error("journalctl -x does not know the journal's entries")
	}
}

// asMakeInstalls: `make install` below the same prefix brings the same files.
func asMakeInstalls(t *testing.T, h *host.Host) {
	t.Helper()
	on(t, h, "make", "-C", source, "-f", "build/release.mk", "install", "DESTDIR=/root/made", "PREFIX=/usr", "BINARY=/root/"+first)
	on(t, h, "sh", "-ec", `cd /root/made; find . -type f -exec cmp '{}' '/{}' ';'`)
	got := on(t, h, "sh", "-ec", `cd /root/made; find usr -type f -printf '/%p\n' | sort`)
	var want []string
	for line := range strings.Lines(contents) {
		name := strings.Fields(line)[2]
		if strings.HasPrefix(line, "-") && !strings.Contains(name, "/licenses/") {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), got); diff != "" {
		t.Errorf("what make installs (-package +make):\n%s", diff)
	}
	on(t, h, "rm", "-r", "/root/made")
}

// intact: rpm finds every file as the package has it.
func intact(t *testing.T, h *host.Host) {
	t.Helper()
	if out, err := h.Run(t.Context(), "rpm", "--verify", "http01-proxyd"); err != nil || out != "" {
		t.Errorf("rpm -V: %v\n%s", err, out)
	}
}

// tampered: rpm names a file that was changed, and mends it.
func tampered(t *testing.T, h *host.Host) {
	t.Helper()
	on(t, h, "sh", "-c", "echo >>/usr/lib/systemd/system/"+service+" && chmod 0600 "+binary)
	out, err := h.Run(t.Context(), "rpm", "--verify", "http01-proxyd")
	if err == nil || !strings.Contains(out, "S.5....T.    /usr/lib/systemd/system/"+service) || !strings.Contains(out, ".M.......    "+binary) {
		t.Errorf("rpm -V: %v\n%s", err, out)
	}
	on(t, h, "rpm", "--upgrade", "--force", packageFile(firstInRPM))
	intact(t, h)
	awaitStatus(t, h, "UpstreamUnreachable: ")
}

// table says whether our table is in the kernel, or is not, as is wanted.
func table(t *testing.T, h *host.Host, wanted bool) error {
	t.Helper()
	out, err := h.Run(t.Context(), "nft", "list", "tables")
	if err == nil && strings.Contains(out, "http01-proxyd") != wanted {
		err = errors.New("the tables are: " + out)
	}
	return err
}

// onLo says whether the internal address is on lo, or is not, as is wanted.
func onLo(t *testing.T, h *host.Host, wanted bool) error {
	t.Helper()
	out, err := h.Run(t.Context(), "ip", "-o", "address", "show", "dev", "lo")
	if err == nil && strings.Contains(out, " "+internal+"/32 ") != wanted {
		err = errors.New("lo has: " + out)
	}
	return err
}

// snapshot is what there is of the host, but for rpm's own books.
func snapshot(t *testing.T, h *host.Host) host.Snapshot {
	t.Helper()
	s, err := h.Snapshot(t.Context(), "http01-proxyd*")
	must(t, err)
	s.Files = maps.Clone(s.Files)
	maps.DeleteFunc(s.Files, func(path, _ string) bool { return strings.HasPrefix(path, "/root/.rpmdb") })
	return s
}

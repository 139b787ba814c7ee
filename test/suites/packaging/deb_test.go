// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// TestDebianPackage installs, upgrades, downgrades and removes the Debian package.
func TestDebianPackage(t *testing.T) {
	s := useTestbed(t)
	h := s.edge
	sums := checksums(t, h)
	old, err := s.build(t.Context(), "deb", first)
	must(t, err)
	must(t, s.runDocumented(t.Context(), debGuide, 0, "BINARY=/root/"+second, "SOURCE_DATE_EPOCH="+epoch))
	runOnHost(t, h, "sh", "-ec", `umask 077; export TZ=Pacific/Auckland; `+
		`make --no-print-directory -C /root/source -f build/release.mk deb SOURCE_DATE_EPOCH=`+epoch+
		` BINARY=/root/`+first+` DIST=/root/again/deb ARCHITECTURE=`+architecture+` && cmp /root/again/deb/*.deb `+old)
	// Debian has no preset that disables a unit. The host of these tests has RHEL's.
	const preset = "/etc/systemd/system-preset/99-default.preset"
	runOnHost(t, h, "mv", preset, "/root/")
	defer runOnHost(t, h, "mv", "/root/99-default.preset", preset)
	before := withoutDpkg(t, h)

	runOnHost(t, h, "apt-get", "install", "--yes", old)
	expectProperties(t, h, service, map[string]string{
		"UnitFileState": "disabled", "ActiveState": "inactive", "NeedDaemonReload": "no",
	})
	expectJournalCatalog(t, h)
	beginToServe(t, h, sums[first])

	must(t, s.runDocumented(t.Context(), debGuide, 1))
	expectBinary(t, h, sums[second])
	expectProperties(t, h, service, map[string]string{
		"UnitFileState": "enabled", "ActiveState": "active", "NeedDaemonReload": "no",
	})
	must(t, checkTable(t, h, true))
	if got, err := h.ReadFile(config); err != nil || got != serving {
		t.Errorf("after an upgrade the configuration is %q (%v)", got, err)
	}
	runOnHost(t, h, "apt-get", "install", "--yes", "--allow-downgrades", old)
	expectBinary(t, h, sums[first])

	if got := runOnHost(t, h, "dpkg", "--verify", "http01-proxyd"); got != "" {
		t.Errorf("dpkg --verify: %s", got)
	}
	runOnHost(t, h, "sh", "-c", "echo >>/usr/lib/systemd/system/"+service)
	if got := runOnHost(t, h, "sh", "-c", "dpkg --verify http01-proxyd; true"); !strings.Contains(got, "5") ||
		!strings.Contains(got, service) {
		t.Errorf("dpkg --verify: %s", got)
	}

	runOnHost(t, h, "systemctl", "kill", "--signal=SIGKILL", service)
	must(t, s.runDocumented(t.Context(), debGuide, 2))
	must(t, checkTable(t, h, false))
	for _, unit := range []string{service, companion} {
		expectProperties(t, h, unit, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	}
	runOnHost(t, h, "ip", "address", "del", vip+"/32", "dev", host.Link)
	if diff := before.Diff(withoutDpkg(t, h)); diff != "" {
		t.Errorf("the host has changed after the removal:\n%s", diff)
	}
}

// withoutDpkg returns a snapshot of the host without the records of apt and dpkg.
func withoutDpkg(t *testing.T, h *host.Host) host.Snapshot {
	t.Helper()
	s := snapshot(t, h)
	records := []string{"/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/log/apt", "/var/log/dpkg.log"}
	maps.DeleteFunc(s.Files, func(path, _ string) bool {
		return slices.ContainsFunc(records, func(record string) bool { return strings.HasPrefix(path, record) })
	})
	return s
}

// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	unit        = "http01-proxyd.service"
	unitPath    = "/etc/systemd/system/" + unit
	companion   = "http01-proxyd-table.service"
	binaryPath  = "/usr/local/bin/http01-proxyd"
	unitPattern = "http01-proxyd*" // the pattern of the service's units

	companionPath = "/etc/systemd/system/" + companion
)

// TestCertificatesFollowTheVIP orders certificates through each VIP holder, also after its
// power loss and its return. The snapshots show the installed files, and no difference
// after their removal.
func TestCertificatesFollowTheVIP(t *testing.T) {
	c := useCluster(t)
	before := snapshots(t, c)
	installService(t, c)
	must(t, c.AwaitServing(t.Context(), c.ControlPlane[0]))
	expectCertificate(t, c, "first")

	must(t, c.ControlPlane[0].Kill(t.Context()))
	must(t, c.AwaitVIPsOn(t.Context(), c.ControlPlane[1]))
	must(t, c.AwaitServing(t.Context(), c.ControlPlane[1]))
	expectCertificate(t, c, "without-master0")

	must(t, c.ControlPlane[0].Boot(t.Context()))
	must(t, c.AwaitVIPs(t.Context()))
	must(t, c.AwaitServing(t.Context(), c.ControlPlane[0]))
	expectCertificate(t, c, "with-master0-again")

	// The snapshots show the installed service.
	for i, now := range snapshots(t, c) {
		diff := before[i].Diff(now)
		for _, want := range []string{
			"/var/usrlocal/bin/http01-proxyd\n\t+ -rwxr-xr-x 0:0 ",
			"\t+ http01-proxyd.service enabled disabled\n",
			"\t+ http01-proxyd.service loaded active running ",
			"\t+ table inet http01-proxyd {",
		} {
			if !strings.Contains(diff, want) {
				t.Errorf("%s: with the service, the snapshot does not show %q:\n%s", c.ControlPlane[i], want, diff)
			}
		}
		if holds := i == 0; strings.Contains(diff, "elements = { 192.0.2.5 }") != holds {
			t.Errorf("%s: the snapshot has the VIP in the ruleset: %t, want %t:\n%s", c.ControlPlane[i], !holds, holds, diff)
		}
	}
	uninstall(t, c)
	expectUnchanged(t, c, before)
}

// expectUnchanged compares the hosts with earlier snapshots.
func expectUnchanged(t *testing.T, c *cluster.Cluster, before []host.Snapshot) {
	t.Helper()
	for i, after := range snapshots(t, c) {
		if diff := before[i].Diff(after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", c.ControlPlane[i], diff)
		}
	}
}

func expectCertificate(t *testing.T, c *cluster.Cluster, label string) {
	t.Helper()
	certificate := must1(c.Certificate(t.Context(), label))(t)
	if want := label + "." + c.Lab.Domain; !slices.Equal(certificate.DNSNames, []string{want}) {
		t.Errorf("the certificate is for %v, want %s", certificate.DNSNames, want)
	}
}

func snapshots(t *testing.T, c *cluster.Cluster) []host.Snapshot {
	t.Helper()
	all := make([]host.Snapshot, len(c.ControlPlane))
	each(t, c, func(ctx context.Context, i int, m *host.Host) (err error) {
		all[i], err = m.Snapshot(ctx, unitPattern)
		return err
	})
	return all
}

// each runs act for all control-plane hosts concurrently.
func each(t *testing.T, c *cluster.Cluster, act func(ctx context.Context, i int, m *host.Host) error) {
	t.Helper()
	must(t, c.Each(t.Context(), act))
}

// installService installs and starts the service on every control-plane host.
func installService(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	each(t, c, func(ctx context.Context, _ int, m *host.Host) error {
		err := errors.Join(
			m.Install(os.Getenv(binaryVariable), binaryPath, 0o755),
			m.Install(filepath.Join(host.Repository(), "systemd", unit), unitPath, 0o644),
			m.Install(filepath.Join(host.Repository(), "systemd", companion), companionPath, 0o644))
		if err != nil {
			return err
		}
		_, err = m.Run(ctx, "systemctl", "enable", "--now", unit)
		return err
	})
}

// uninstall removes the service with all files that it created.
func uninstall(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	each(t, c, func(ctx context.Context, _ int, m *host.Host) error {
		if _, err := m.Run(ctx, "systemctl", "disable", "--now", unit); err != nil {
			return err
		}
		// The companion ends after the unit that starts it.
		if err := lab.Eventually(ctx, "the companion's end", func(ctx context.Context) error {
			p, err := m.Properties(ctx, companion, "ActiveState")
			if err == nil && p["ActiveState"] != "inactive" {
				err = fmt.Errorf("it is %s", p["ActiveState"])
			}
			return err
		}); err != nil {
			return err
		}
		for _, path := range []string{
			binaryPath, unitPath, companionPath, "/var/lib/http01-proxyd", "/var/lib/private/http01-proxyd",
		} {
			if err := m.RemoveFile(path); err != nil {
				return err
			}
		}
		_, err := m.Run(ctx, "systemctl", "daemon-reload")
		return err
	})
}

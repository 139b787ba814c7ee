// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

// clusterPolicy is the policy of a cluster without entries of an administrator.
const clusterPolicy = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec: {managementState: Managed}
`

// admin is the administrator of a cluster whose three nodes run the daemons of three ranges
// of OpenShift releases.
type admin struct {
	*testbed
	*shell

	t       *testing.T
	readme  *commandBlocks // readmeDocument
	life    *commandBlocks // lifeGuide
	cluster *oc.Cluster
}

func newAdmin(t *testing.T) *admin {
	t.Helper()
	s := useCluster(t)
	flavours := []mcd.Flavour{mcd.OpenShift420, mcd.OpenShift418, mcd.OpenShift417}
	var nodes []oc.Node
	for i, m := range s.ControlPlane {
		nodes = append(nodes, oc.Node{Name: m.Name, Daemon: &mcd.Daemon{Host: m, Flavour: flavours[i]}})
	}
	c := must1(oc.New(t.Context(), []byte(clusterPolicy), nodes))(t)
	c.Rollouts() // of the base configuration
	a := &admin{
		testbed: s, t: t, readme: openDocument(t, readmeDocument, readmeMark),
		life: openDocument(t, lifeGuide, installMark), cluster: c,
	}
	handlers := nextReleaseHandlers()
	handlers["oc"] = s.withDebugPods(c.Run)
	a.shell = newShell(t, handlers)
	a.env = append(a.env, "IMAGE="+s.images[first])
	t.Cleanup(func() {
		ctx := context.Background()
		// The nodes and the registry are restored for the next test, also after a failure.
		must(t, s.Registry.Up(ctx))
		for _, n := range nodes {
			n.Daemon.Update(ctx, mcd.Rendered{})
		}
	})
	return a
}

// step runs a change of the configuration, which starts the service this often on each host. It prints the
// daemons' actions, one line per node.
func (a *admin) step(name string, starts int, act func()) {
	a.t.Helper()
	before := a.serviceStarts()
	begin := time.Now()
	act()
	fmt.Printf("%s (%.2f s)\n", name, time.Since(begin).Seconds())
	rollouts := a.cluster.Rollouts()
	if len(rollouts) != len(a.ControlPlane) {
		a.t.Errorf("%s: %d nodes got a new configuration, want all", name, len(rollouts))
	}
	for _, r := range rollouts {
		fmt.Printf("    %s: %s\n", r.Node, strings.Join(r.Actions, " "))
		if r.Degraded != nil || r.Rebooted {
			a.t.Errorf("%s: %s: degraded: %v, reboot: %v", name, r.Node, r.Degraded, r.Rebooted)
		}
	}
	for i, after := range a.serviceStarts() {
		if got := after - before[i]; got != starts {
			a.t.Errorf("%s: the service started %d times on %s, want %d", name, got, a.ControlPlane[i], starts)
		}
	}
	if a.t.Failed() {
		a.t.FailNow()
	}
}

func (a *admin) serviceStarts() []int {
	a.t.Helper()
	all := make([]int, len(a.ControlPlane))
	a.each(a.t, func(ctx context.Context, i int, m *host.Host) (err error) {
		all[i], err = countStarts(ctx, m)
		return err
	})
	return all
}

func (a *admin) awaitRelease(release string) {
	a.t.Helper()
	must(a.t, a.AwaitServing(a.t.Context(), a.ControlPlane[0]))
	a.each(a.t, func(ctx context.Context, _ int, m *host.Host) error { return a.checkRelease(ctx, m, release) })
}

func (a *admin) expectCertificate(label string) {
	a.t.Helper()
	must1(a.Certificate(a.t.Context(), label))(a.t)
}

// TestByMachineConfig installs, changes, upgrades, downgrades and removes the service on three hosts with
// the daemons of three ranges of releases, which are not served. No reboot, failed action or drift may
// occur, the service starts at most once a step, and at the end the hosts are unchanged.
// test/rehearsal/openshift runs these and other procedures with OpenShift's own daemon.
func TestByMachineConfig(t *testing.T) {
	a := newAdmin(t)
	before := a.snapshots(t)

	a.setRelease(first)
	a.step("installation", 1, func() { fmt.Print(a.section(a.readme, "Quick start")) })
	a.awaitRelease(first)
	a.expectCertificate("installed")
	a.expectJournalCatalog(t, a.ControlPlane[0])

	a.write("my.yaml", "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n")
	a.step("configuration change, port 8888 to 9888", 0, func() { a.section(a.life, "Change the configuration") })
	a.awaitPort(9888)
	a.expectCertificate("port-9888")

	a.step("upgrade of image, units and installer", 1,
		func() { a.upgradeTo(third, "AFTER_MAKE="+otherUnits) })
	a.awaitRelease(third)
	a.expectUnits("1280", "16min", otherScript)
	a.expectCertificate("other-units")

	must(t, a.Registry.Down(t.Context(), registry.Refused))
	a.step("downgrade, registry away", 1, func() { a.upgradeTo(first) })
	must(t, a.Registry.Up(t.Context()))
	a.awaitRelease(first)
	a.expectUnits("1024", "15min", "")
	a.expectCertificate("downgraded")

	// The active policy does not list the unit.
	a.step("upgrade that brings a unit", 1, func() { a.upgradeTo(second, "AFTER_MAKE="+anotherUnit) })
	a.awaitRelease(second)
	a.each(t, func(ctx context.Context, _ int, m *host.Host) error {
		got, err := m.Properties(ctx, nextUnit, "LoadState")
		if err == nil && got["LoadState"] != "loaded" {
			err = fmt.Errorf("%s on %s is %s", nextUnit, m, got["LoadState"])
		}
		return err
	})
	a.remove(before)
}

// setRelease passes the checksums of a release to make from now on.
func (a *admin) setRelease(release string) {
	a.t.Helper()
	a.write("SHA256SUMS", a.checksums[release])
	a.env = append(a.env, "MAKE_ARGUMENTS=SUMS="+filepath.Join(a.dir, "SHA256SUMS"))
}

// upgradeTo runs the documented upgrade or downgrade to a release.
func (a *admin) upgradeTo(release string, env ...string) {
	a.t.Helper()
	a.setRelease(release)
	a.section(a.life, "Upgrade and downgrade", append(env, "NEW_IMAGE="+a.images[release])...)
}

// expectUnits compares the units and the installer of releases in systemd's memory and on
// the host's disk.
func (a *admin) expectUnits(tasks, timeout, script string) {
	a.t.Helper()
	for _, m := range a.ControlPlane {
		for unit, want := range map[string]map[string]string{
			service:   {"TasksMax": tasks, "NeedDaemonReload": "no"},
			installer: {"TimeoutStartUSec": timeout, "NeedDaemonReload": "no"},
			timer:     {"NeedDaemonReload": "no"},
		} {
			got := must1(m.Properties(a.t.Context(), unit, slices.Collect(maps.Keys(want))...))(a.t)
			if diff := cmp.Diff(want, got); diff != "" {
				a.t.Errorf("%s on %s (-want +got):\n%s", unit, m, diff)
			}
		}
		text := must1(m.ReadFile("/usr/local/bin/http01-proxyd-install"))(a.t)
		// The catalog entry of a release is installed and removed with it.
		if _, err := m.Run(a.t.Context(), "journalctl", "--list-catalog", nextMessage); (err == nil) != (script != "") {
			a.t.Errorf("the catalog of %s has the entry of the next release: %v", m, err == nil)
		}
		if strings.HasSuffix(text, otherScript) != (script != "") {
			a.t.Errorf("the installer on %s ends with %q", m, text[max(0, len(text)-len(otherScript)):])
		}
	}
}

func (a *admin) awaitPort(port int) {
	a.t.Helper()
	for _, m := range a.ControlPlane {
		must(a.t, eventually(a.t, fmt.Sprintf("port %d on %s", port, m), func(ctx context.Context) error {
			got, err := a.Status(ctx, m)
			if err != nil {
				return err
			}
			if got.Table.Present && got.Table.Port != port {
				return fmt.Errorf("the table redirects to port %d", got.Table.Port)
			}
			if m == a.ControlPlane[0] && !got.Table.Present {
				return errors.New("no table")
			}
			return nil
		}))
	}
}

// remove runs the documented removal, and compares the hosts with earlier snapshots, also after a reboot.
func (a *admin) remove(before []host.Snapshot) {
	a.t.Helper()
	a.step("removal", 0, func() { a.section(a.readme, "Uninstall") })
	if _, err := a.Certificate(a.t.Context(), "removed"); err == nil {
		a.t.Error("a certificate was issued without the service")
	}
	a.expectUnchanged(before)
	a.each(a.t, func(ctx context.Context, _ int, m *host.Host) error {
		if err := m.Reboot(ctx); err != nil {
			return err
		}
		out, err := m.Run(ctx, "find", "/run/systemd/system", "-name", unitPattern)
		if err == nil && out != "" {
			err = fmt.Errorf("%s has units of the service after a boot: %s", m, out)
		}
		return err
	})
	a.expectUnchanged(before)
}

// expectUnchanged compares the hosts with earlier snapshots.
func (a *admin) expectUnchanged(before []host.Snapshot) {
	a.t.Helper()
	for i, now := range a.snapshots(a.t) {
		if diff := before[i].Diff(now); diff != "" {
			a.t.Errorf("%s is not as it was:\n%s", a.ControlPlane[i], diff)
		}
	}
}

// awaitInstaller waits until `systemctl status` of the installer shows these texts. The
// timer may have just started it again.
func (s *testbed) awaitInstaller(t *testing.T, m *host.Host, want ...string) {
	t.Helper()
	must(t, eventually(t, fmt.Sprintf("the installer on %s to log %q", m, want), func(ctx context.Context) error {
		text := status(ctx, m, installer)
		for _, w := range want {
			if !strings.Contains(text, w) {
				return errors.New(text)
			}
		}
		return nil
	}))
}

// read returns a file of the shell's directory, or "" when it does not exist.
func (s *shell) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(text)
}

func eventually(t *testing.T, what string, try func(context.Context) error) error {
	t.Helper()
	return lab.Eventually(t.Context(), what, try)
}

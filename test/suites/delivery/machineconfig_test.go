// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

// otherPolicy is the policy of the cluster's administrator.
const otherPolicy = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  managementState: Managed
  nodeDisruptionPolicy:
    files:
    - path: /etc/chrony.conf
      actions: [{type: Restart, restart: {serviceName: chronyd.service}}]
    - path: /etc/motd
      actions: [{type: None}]
    units:
    - name: audit-rules.service
      actions: [{type: DaemonReload}]
`

// otherConfig is another MachineConfig of the pool.
const otherConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-master-motd
  labels:
    machineconfiguration.openshift.io/role: master
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: /etc/motd
        mode: 0644
        overwrite: true
        contents: {source: "data:,hello%0A"}
`

// kernelConfig is a MachineConfig for which every policy needs a reboot.
const kernelConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-master-kernel
  labels:
    machineconfiguration.openshift.io/role: master
spec:
  config:
    ignition: {version: 3.4.0}
  kernelArguments: [quiet]
`

// digests matches the checksums in SHA256SUMS.
var digests = regexp.MustCompile(`(?m)^[0-9a-f]{64}`)

// admin is the administrator of a cluster whose three nodes run the daemons of three ranges
// of OpenShift releases.
type admin struct {
	*testbed
	*shell

	t       *testing.T
	guide   *commandBlocks // machineConfigGuide
	life    *commandBlocks // lifeGuide
	cluster *oc.Cluster
	began   time.Time
}

func newAdmin(t *testing.T) *admin {
	t.Helper()
	s := useCluster(t)
	flavours := []mcd.Flavour{mcd.OpenShift420, mcd.OpenShift418, mcd.OpenShift417}
	seed := rand.Uint64()
	t.Logf("the order of changes is shuffled with seed %d", seed)
	var nodes []oc.Node
	for i, m := range s.ControlPlane {
		nodes = append(nodes, oc.Node{Name: m.Name, Daemon: &mcd.Daemon{
			Machine: m,
			Flavour: flavours[i],
			Shuffle: rand.New(rand.NewPCG(seed, uint64(i))).Shuffle,
		}})
	}
	c := must1(oc.New(t.Context(), []byte(otherPolicy), nodes, []byte(otherConfig)))(t)
	c.Rollouts() // of the base configuration
	a := &admin{testbed: s, t: t, guide: openDocument(t, machineConfigGuide, installMark), life: openDocument(t, lifeGuide,
		installMark), cluster: c, began: time.Now()}
	handlers := nextReleaseHandlers()
	handlers["oc"] = c.Run
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

// expect lists the allowed effects of a step on the hosts.
type expect struct {
	starts  int  // service starts on each host
	changes bool // the nodes get a new configuration
	reboots bool // the nodes reboot because of another MachineConfig
}

// step runs act and prints the daemon's actions with their times, one line per node.
func (a *admin) step(name string, want expect, act func()) {
	a.t.Helper()
	before := a.serviceStarts()
	begin := time.Now()
	act()
	elapsed := time.Since(begin)
	fmt.Printf("%6.2f s  %s (%.2f s)\n", begin.Sub(a.began).Seconds(), name, elapsed.Seconds())
	rollouts := a.cluster.Rollouts()
	nodes := 0
	if want.changes {
		nodes = len(a.ControlPlane)
	}
	if len(rollouts) != nodes {
		a.t.Errorf("%s: %d nodes got a new configuration, want %d", name, len(rollouts), nodes)
	}
	after := a.serviceStarts()
	for _, r := range rollouts {
		var actions []string
		for _, done := range r.Report.Actions {
			actions = append(actions, fmt.Sprintf("%s %.2f s", done.Action, done.Took.Seconds()))
		}
		i := slices.IndexFunc(a.ControlPlane, func(m *host.Host) bool { return m.Name == r.Node })
		fmt.Printf("          %s: %s; service started %d times\n", r.Node, strings.Join(actions, ", "), after[i]-before[i])
		if r.Report.Degraded != nil || r.Drift != nil {
			a.t.Errorf("%s: %s: degraded: %v, drift: %v", name, r.Node, r.Report.Degraded, r.Drift)
		}
		// A reboot drains the node first.
		if r.Report.Rebooted != want.reboots || r.Report.Drained != want.reboots {
			a.t.Errorf("%s: %s: reboot: %v, drain: %v, want %v", name, r.Node, r.Report.Rebooted, r.Report.Drained, want.reboots)
		}
		if len(r.Report.Notes) > 0 {
			a.t.Errorf("%s: %s: failures that the daemon ignored: %v", name, r.Node, r.Report.Notes)
		}
	}
	for i, m := range a.ControlPlane {
		if got := after[i] - before[i]; got != want.starts {
			a.t.Errorf("%s: the service started %d times on %s, want %d", name, got, m, want.starts)
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
	begin := time.Now()
	got := must1(a.Certificate(a.t.Context(), label))(a.t)
	fmt.Printf("          certificate for %s in %.2f s\n", got.DNSNames[0], time.Since(begin).Seconds())
}

// TestByMachineConfig runs every step of the first method on three hosts with the daemons
// of three ranges of releases. No reboot, failed action or drift may occur, the service
// starts at most once a step, and at the end the hosts are unchanged.
func TestByMachineConfig(t *testing.T) {
	a := newAdmin(t)
	before := a.snapshots(t)

	a.setRelease(first)
	a.step("render", expect{}, func() { t.Log(a.section(a.guide, "1. Render")) })
	a.step("node disruption policy", expect{}, func() { a.section(a.guide, "2. The node disruption policy, first") })
	a.expectForeignPolicy()
	a.step("first installation", expect{starts: 1, changes: true}, func() {
		fmt.Print(a.section(a.guide, "3. The MachineConfigs"))
	})
	a.awaitRelease(first)
	a.expectCertificate("installed")
	a.printStatus()
	a.expectClusterReports()
	a.expectJournalCatalog(t, a.ControlPlane[0])

	a.write("my.yaml", "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n")
	a.step("configuration change, port 8888 to 9888", expect{changes: true},
		func() { a.section(a.life, "Change the configuration") })
	a.awaitPort(9888)
	a.expectCertificate("port-9888")

	a.step("image upgrade", expect{starts: 1, changes: true}, func() { a.upgradeTo(second) })
	a.awaitRelease(second)
	a.awaitPort(9888)
	a.expectCertificate("upgraded")

	a.failingUpgrades()
	a.bootsWithoutRegistry()

	a.step("upgrade of image, units and installer", expect{starts: 1, changes: true},
		func() { a.upgradeTo(third, "AFTER_MAKE="+otherUnits) })
	a.awaitRelease(third)
	a.expectUnits("1280", "16min", otherScript)
	a.expectCertificate("other-units")

	must(t, a.Registry.Down(t.Context(), registry.Refused))
	a.step("downgrade, registry away", expect{starts: 1, changes: true}, func() { a.upgradeTo(second) })
	must(t, a.Registry.Up(t.Context()))
	a.awaitRelease(second)
	a.expectUnits("1024", "15min", "")
	a.expectCertificate("downgraded")

	image := "IMAGE=" + a.images[second]
	a.write("my.yaml", "mode: \"\"\n")
	a.step("disable", expect{changes: true}, func() { a.section(a.life, "Change the configuration", image) })
	a.awaitDisabled()
	a.write("my.yaml", "")
	a.step("enable again", expect{changes: true}, func() { a.section(a.life, "Change the configuration", image) })
	a.awaitRelease(second)
	a.expectCertificate("enabled-again")

	// The active policy does not list the unit.
	a.step("upgrade that brings a unit", expect{starts: 1, changes: true},
		func() { a.upgradeTo(first, "AFTER_MAKE="+anotherUnit) })
	a.awaitRelease(first)
	a.each(t, func(ctx context.Context, _ int, m *host.Host) error {
		got, err := m.Properties(ctx, nextUnit, "LoadState")
		if err == nil && got["LoadState"] != "loaded" {
			err = fmt.Errorf("%s on %s is %s", nextUnit, m, got["LoadState"])
		}
		return err
	})
	a.remove(before)
}

// TestRemovalReboots combines the removal with a change that reboots the node, so that no
// action follows. The remaining files run nothing, and the documented command removes them.
func TestRemovalReboots(t *testing.T) {
	a := newAdmin(t)
	before := a.snapshots(t)
	a.install()
	a.write("kernel.yaml", kernelConfig)
	removal := a.life.block(t, "Remove", 0, 2)
	a.step("remove, with a kernel argument in the same update", expect{changes: true, reboots: true}, func() {
		a.cluster.Pause()
		must1(a.run(t.Context(), removal+"oc apply -f kernel.yaml"))(t)
		must(t, a.cluster.Resume(t.Context()))
	})
	a.each(t, func(ctx context.Context, _ int, m *host.Host) error { return m.Reboot(ctx) })
	must(t, a.AwaitVIPs(t.Context()))
	a.each(t, func(ctx context.Context, _ int, m *host.Host) error { return checkLeftovers(ctx, m) })
	recovery := a.life.onlyBlock(t, "Recover")
	for _, m := range a.ControlPlane {
		must1(a.run(t.Context(), strings.ReplaceAll(recovery, "node/master0", "node/"+m.Name)))(t)
	}
	a.expectUnchanged(before)
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

// TestREADME runs the commands of the README, from the installation to the removal.
func TestREADME(t *testing.T) {
	a := newAdmin(t)
	before := a.snapshots(t)
	readme := openDocument(t, readmeDocument, readmeMark)
	a.step("README: quick start", expect{starts: 1, changes: true}, func() { a.section(readme, "Quick start") })
	a.awaitRelease(first)
	health := a.section(readme, "Check health")
	t.Log(health)
	for _, want := range []string{"Serving", "Standby", "192.0.2.5"} {
		if !strings.Contains(health, want) {
			t.Errorf("the status of the cluster has no %s:\n%s", want, health)
		}
	}
	a.expectCertificate("readme")
	// The lab has no API server. Checks that require one cannot end, so the exit code is 4.
	out, err := a.run(t.Context(), readme.block(t, "Not working?", 0, 1))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.Contains(out, "[api-server-unreachable]") {
		t.Errorf("check does not report the missing API server, or not with the exit code 4: %v\n%s", err, out)
	}
	a.step("README: uninstall", expect{changes: true}, func() { a.section(readme, "Uninstall") })
	a.expectUnchanged(before)
}

// install runs the first three steps of the document.
func (a *admin) install() {
	a.t.Helper()
	a.setRelease(first)
	a.step("install", expect{starts: 1, changes: true}, func() {
		for _, section := range []string{"1. Render", "2. The node disruption policy, first", "3. The MachineConfigs"} {
			a.section(a.guide, section)
		}
	})
	a.awaitRelease(first)
	a.expectCertificate("installed")
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

// expectForeignPolicy expects that the administrator's own entries remain in the policy.
func (a *admin) expectForeignPolicy() {
	a.t.Helper()
	keys := a.policyKeys()
	for _, key := range []string{"/etc/chrony.conf", "/etc/motd", "audit-rules.service"} {
		if !slices.Contains(keys, key) {
			a.t.Errorf("the administrator's entry for %s is missing: %v", key, keys)
		}
	}
}

// policyKeys returns the files and units of the applied policy.
func (a *admin) policyKeys() (keys []string) {
	a.t.Helper()
	var object operatorv1.MachineConfiguration
	must(a.t, yaml.Unmarshal(a.cluster.Policy(), &object))
	for _, f := range object.Spec.NodeDisruptionPolicy.Files {
		keys = append(keys, f.Path)
	}
	for _, u := range object.Spec.NodeDisruptionPolicy.Units {
		keys = append(keys, string(u.Name))
	}
	return keys
}

func (a *admin) printStatus() {
	a.t.Helper()
	fmt.Print(status(a.t.Context(), a.ControlPlane[0], service))
	out := must1(a.ControlPlane[0].Run(a.t.Context(), "sh", "-c", "journalctl --no-pager --output=short -u "+service+
		" -u "+installer+" | head -n 20"))(a.t)
	fmt.Print(out)
}

// expectClusterReports expects that the plugin of oc shows the holder of each VIP, and gets the
// result of check from all nodes.
func (a *admin) expectClusterReports() {
	a.t.Helper()
	type node struct {
		Name     string
		Reported bool
	}
	var status struct {
		VIPs     []struct{ Holders []string }
		Nodes    []node
		Problems []struct{ ID string }
	}
	must(a.t, json.Unmarshal([]byte(must1(a.run(a.t.Context(), "oc http01 status --exit-code -o json"))(a.t)), &status))
	for _, v := range status.VIPs {
		if !slices.Equal(v.Holders, []string{a.ControlPlane[0].Name}) {
			a.t.Errorf("a VIP is held by %q", v.Holders)
		}
	}
	for _, p := range status.Problems {
		if p.ID != "api-server-unreachable" { // these hosts run no API server
			a.t.Errorf("problem %s", p.ID)
		}
	}
	if len(status.VIPs) == 0 {
		a.t.Errorf("status: %+v", status)
	}
	var check struct {
		Kind  string
		Nodes []node
	}
	// The hosts of this test have no certificate for the API, so there may be findings.
	must(a.t, json.Unmarshal([]byte(must1(a.run(a.t.Context(), "oc http01 check -o json || test $? -eq 3 -o $? -eq 4"))(
		a.t)), &check))
	var want []node
	for _, m := range a.ControlPlane {
		want = append(want, node{m.Name, true})
	}
	if check.Kind != "ClusterCheck" || !slices.Equal(want, check.Nodes) || !slices.Equal(want, status.Nodes) {
		a.t.Errorf("status: %+v; check: %+v", status, check)
	}
	fmt.Print(must1(a.run(a.t.Context(), "oc http01 status -o wide"))(a.t))
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

func (a *admin) awaitDisabled() {
	a.t.Helper()
	for _, m := range a.ControlPlane {
		must1(a.AwaitState(a.t.Context(), m, "Disabled"))(a.t)
		out := must1(m.Run(a.t.Context(), "nft", "list", "tables"))(a.t)
		if strings.Contains(out, "http01-proxyd") {
			a.t.Errorf("%s: disabled, with the table: %s", m, out)
		}
	}
}

// failingUpgrades runs failing upgrades. The running release stays unchanged, the daemon
// reports no failure, and the installer logs the documented reason.
func (a *admin) failingUpgrades() {
	a.t.Helper()
	ctx := a.t.Context()
	wrong := digests.ReplaceAllString(a.checksums[third], strings.Repeat("0", 64))
	for _, tt := range []struct {
		name   string
		sums   string
		outage registry.Outage
		want   string
	}{
		{"wrong checksum", wrong, registry.None, "has the checksum"},
		{"registry away", a.checksums[third], registry.Refused, "cannot pull"},
	} {
		must(a.t, a.Registry.Down(ctx, tt.outage))
		a.write("SHA256SUMS", tt.sums)
		a.step("failing upgrade: "+tt.name, expect{changes: true}, func() {
			a.section(a.life, "Upgrade and downgrade", "NEW_IMAGE="+a.images[third])
		})
		a.awaitRelease(second)
		for _, m := range a.ControlPlane {
			a.awaitInstallerOn(m, tt.want, "status=1/FAILURE")
			if got, err := m.Properties(ctx, timer, "ActiveState"); err != nil || got["ActiveState"] != "active" {
				a.t.Errorf("%s: the retry timer is %v: %v", m, got, err)
			}
		}
	}
	// The unit is inactive at this point, which is the exit status 3 of systemctl.
	const section = "When a pull fails"
	out, err := a.run(ctx, strings.TrimSpace(a.guide.block(a.t, section, 0, 2))+" || [ $? -eq 3 ]")
	must(a.t, err)
	fmt.Print(out)
	out, err = a.run(ctx, a.guide.block(a.t, section, 1, 2))
	must(a.t, err)
	if !strings.Contains(out, "connection refused") {
		a.t.Errorf("the journal does not have podman's error:\n%s", out)
	}
	a.expectCertificate("after-failed-upgrades")
	a.unknownKeyInOldBinary()
	for _, m := range a.ControlPlane {
		a.awaitInstallerOn(m, "cannot pull", "status=1/FAILURE") // a running attempt would reach the registry
	}
	must(a.t, a.Registry.Up(ctx))
	a.step("back to the image that runs", expect{changes: true}, func() { a.upgradeTo(second) })
	a.awaitRelease(second)
}

// unknownKeyInOldBinary applies the configuration of the release that was not pulled. It
// has a key that the old binary does not support, and then the host is rebooted. The
// service serves with the last accepted configuration.
func (a *admin) unknownKeyInOldBinary() {
	a.t.Helper()
	ctx := a.t.Context()
	a.step("a new key with the old binary", expect{changes: true}, func() {
		must(a.t, a.cluster.Edit(ctx, "98-master-http01-proxyd-config", func(text []byte) []byte {
			return withContents(a.t, text,
				"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\ninTheNextRelease: true\n")
		}))
	})
	holder := a.ControlPlane[0]
	must(a.t, holder.Kill(ctx))
	must(a.t, holder.Boot(ctx))
	must(a.t, a.AwaitVIPs(ctx))
	for _, m := range a.ControlPlane {
		got := must1(a.AwaitState(ctx, m, "InvalidConfig"))(a.t)
		if !strings.Contains(got.Condition().Message, "inTheNextRelease") {
			a.t.Errorf("%s does not name the key: %s", m, got.Condition().Message)
		}
		must(a.t, a.checkRelease(ctx, m, second))
	}
	a.awaitPort(9888)
	a.expectCertificate("with-the-last-accepted")
}

// bootsWithoutRegistry holds that a host with the right binary does not query the registry.
func (a *admin) bootsWithoutRegistry() {
	a.t.Helper()
	ctx := a.t.Context()
	must(a.t, a.Registry.Down(ctx, registry.Refused))
	pulls := a.Registry.Pulls()
	begin := time.Now()
	a.each(a.t, func(ctx context.Context, _ int, m *host.Host) error { return m.Reboot(ctx) })
	must(a.t, a.AwaitVIPs(ctx))
	a.awaitRelease(second)
	fmt.Printf("%6.2f s  reboot of all, registry away (%.2f s)\n", begin.Sub(a.began).Seconds(),
		time.Since(begin).Seconds())
	for _, m := range a.ControlPlane {
		a.awaitInstallerOn(m, "is installed, unchanged")
	}
	must(a.t, a.Registry.Up(ctx))
	if diff := cmp.Diff(registry.Pulls{}, a.Registry.Pulls().Since(pulls)); diff != "" {
		a.t.Errorf("requests of the hosts to the registry (-want +got):\n%s", diff)
	}
	a.expectCertificate("booted")
}

// remove runs the documented removal. With snapshots it also compares the hosts with them.
func (a *admin) remove(before []host.Snapshot) {
	a.t.Helper()
	a.step("remove", expect{changes: true}, func() {
		must1(a.run(a.t.Context(), a.life.block(a.t, "Remove", 0, 2)))(a.t)
	})
	a.step("remove the policy's entries", expect{}, func() {
		must1(a.run(a.t.Context(), a.life.block(a.t, "Remove", 1, 2)))(a.t)
	})
	a.expectForeignPolicy()
	for _, key := range a.policyKeys() {
		if strings.Contains(key, "http01-proxyd") {
			a.t.Errorf("the policy still has %s", key)
		}
	}
	if _, err := a.Certificate(a.t.Context(), "removed"); err == nil {
		a.t.Error("a certificate was issued without the service")
	}
	if before == nil {
		return
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

func (a *admin) awaitInstallerOn(m *host.Host, want ...string) {
	a.t.Helper()
	a.awaitInstaller(a.t, m, want...)
}

// read returns a file of the shell's directory, or "" when it does not exist.
func (s *shell) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(text)
}

// withContents returns a MachineConfig of one file with other contents.
func withContents(t *testing.T, text []byte, contents string) []byte {
	t.Helper()
	var o map[string]any
	must(t, yaml.Unmarshal(text, &o))
	files, found, err := unstructured.NestedSlice(o, "spec", "config", "storage", "files")
	if err != nil || !found || len(files) != 1 {
		t.Fatalf("not a MachineConfig of one file: %v\n%s", err, text)
	}
	file, _ := files[0].(map[string]any)
	file["contents"] = map[string]any{"source": "data:," + url.PathEscape(contents)}
	must(t, unstructured.SetNestedSlice(o, files, "spec", "config", "storage", "files"))
	text, err = yaml.Marshal(o)
	must(t, err)
	return text
}

func eventually(t *testing.T, what string, try func(context.Context) error) error {
	t.Helper()
	return lab.Eventually(t.Context(), what, try)
}

// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreignPatch is a merge patch of another tool, in the form that commatrix documents for
// its nftables MachineConfig. The lists also have the administrator's own entries.
const foreignPatch = `spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/chrony.conf
      actions: [{type: Restart, restart: {serviceName: chronyd.service}}]
    - path: /etc/motd
      actions: [{type: None}]
    - path: /etc/sysconfig/nftables.conf
      actions: [{type: Restart, restart: {serviceName: nftables.service}}]
    units:
    - name: audit-rules.service
      actions: [{type: DaemonReload}]
    - name: nftables.service
      actions: [{type: DaemonReload}, {type: Reload, reload: {serviceName: nftables.service}}]
`

// Commands of another tool. Both remove the entries.
const (
	mergePatch = "oc patch machineconfiguration cluster --type=merge --patch-file=patch.yaml"
	replace    = "oc replace -f replacement.yaml"
)

// writePolicy runs a command of another tool, and the operator observes the result.
func (a *admin) writePolicy(command string) {
	a.t.Helper()
	a.write("patch.yaml", foreignPatch)
	a.write("replacement.yaml",
		"apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n"+foreignPatch+
			"  managementState: Managed\n")
	const get = "\noc get machineconfiguration cluster -o yaml"
	must1(a.run(a.t.Context(), command+get+get))(a.t)
}

// expectPreflight runs the documented commands, and expects these findings.
func (a *admin) expectPreflight(want ...string) {
	a.t.Helper()
	out, err := a.run(a.t.Context(), a.guide.onlyBlock(a.t, "Before a change"))
	var exit *exec.ExitError
	code, wantCode := 0, 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		must(a.t, err)
	}
	if len(want) > 0 {
		wantCode = 3
	}
	var got []string
	for _, found := range regexp.MustCompile(`(?m)^(?:Problem|Warning): +[✗!] \[([a-z-]+)\] `).FindAllStringSubmatch(out, -1) {
		got = append(got, found[1])
	}
	if diff := cmp.Diff(want, got); diff != "" || code != wantCode {
		a.t.Fatalf("preflight: exit code %d, want %d; findings (-want +got):\n%s\n%s", code, wantCode, diff, out)
	}
	fmt.Printf("%s", out)
}

// TestForeignMergePatch: another tool removes the entries before each procedure, with a merge
// patch or with oc replace. Preflight reports it, and the documented commands apply them again: no node reboots.
func TestForeignMergePatch(t *testing.T) {
	a := newAdmin(t)
	before := a.snapshots(t)
	a.install()
	a.expectPreflight()
	image := func(release string) string { return "IMAGE=" + a.images[release] }
	change := func(config, image string) func() {
		return func() {
			a.write("my.yaml", config)
			a.section(a.life, "Change the configuration", image)
		}
	}
	const port = "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"
	for _, procedure := range []struct {
		name    string
		foreign string
		starts  int
		act     func()
		await   func()
	}{
		{"configuration", mergePatch, 0, change(port, image(first)), func() { a.awaitPort(9888) }},
		{"upgrade", replace, 1, func() { a.upgradeTo(second) }, func() { a.awaitRelease(second) }},
		{"downgrade", mergePatch, 1, func() { a.upgradeTo(first) }, func() { a.awaitRelease(first) }},
		{"disable", replace, 0, change("mode: \"\"\n", image(first)), a.awaitDisabled},
		{"enable again", mergePatch, 0, change(port, image(first)), func() { a.awaitRelease(first) }},
	} {
		a.writePolicy(procedure.foreign)
		a.expectPreflight("policy-entries-missing")
		a.step(procedure.foreign+", then "+procedure.name, expect{starts: procedure.starts, changes: true}, procedure.act)
		procedure.await()
		a.expectPreflight()
	}
	a.expectCertificate("patched")
	a.expectReleaseTooEarly()
	a.pause()
	a.writePolicy(replace)
	a.expectPreflight("policy-entries-missing")
	a.remove(nil)
	a.expectUnchanged(before)
}

// pause pauses the pool: the policy that is active when it resumes decides. Another tool
// patches it during the pause.
func (a *admin) pause() {
	a.t.Helper()
	a.cluster.Pause()
	a.expectPreflight("pool-paused")
	a.write("my.yaml", "mode: CustomDeployment\ncustomDeployment: {internalPort: 9889}\n")
	image := "IMAGE=" + a.images[first]
	a.step("configuration, paused pool", expect{}, func() { a.section(a.life, "Change the configuration", image) })
	a.writePolicy(mergePatch)
	a.expectPreflight("policy-entries-missing", "pool-paused")
	a.step("resume", expect{changes: true}, func() {
		must1(a.run(a.t.Context(), a.guide.onlyBlock(a.t, "2. The node disruption policy, first")))(a.t)
		must(a.t, a.cluster.Resume(a.t.Context()))
	})
	a.awaitPort(9889)
}

// expectReleaseTooEarly expects that the script does not remove the entries while the
// MachineConfigs exist.
func (a *admin) expectReleaseTooEarly() {
	a.t.Helper()
	policy := a.cluster.Policy()
	_, err := a.run(a.t.Context(), a.life.block(a.t, "Remove", 1, 2))
	if err == nil || !strings.Contains(err.Error(),
		"apply.sh: these MachineConfigs need the entries: "+
			"machineconfig.machineconfiguration.openshift.io/98-master-http01-proxyd machine") {
		a.t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(string(policy), string(a.cluster.Policy())); diff != "" {
		a.t.Errorf("the policy (-before +after):\n%s", diff)
	}
}

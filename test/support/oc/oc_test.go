// SPDX-License-Identifier: Apache-2.0

package oc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// disk has the parts of a machine that the daemon needs to write one file.
type disk map[string]string

func (d disk) Run(_ context.Context, name string, args ...string) (string, error) {
	if name == "stat" && d[args[len(args)-1]] != "" {
		return "81a4\n", nil // a regular file, 0644 (inode(7))
	}
	return "", fmt.Errorf("%s %q: %w", name, args, fs.ErrNotExist)
}

func (d disk) ReadFile(name string) (string, error) {
	content, there := d[name]
	if !there {
		return "", fs.ErrNotExist
	}
	return content, nil
}

func (d disk) WriteFile(name, content string, _ fs.FileMode) error {
	d[name] = content
	return nil
}

func (d disk) RemoveFile(name string) error {
	delete(d, name)
	return nil
}

const (
	noEntries = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec: {managementState: Managed}
`
	entry = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/motd
      actions: [{type: None}]
`
	motd = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-master-motd
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - {path: /etc/motd, mode: 0644, contents: {source: "data:,hello"}}
`
	kernelArgument = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-master-quiet
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
  kernelArguments: [quiet]
`
	applyPolicy    = "oc apply --server-side --field-manager=us -f policy.yaml"
	getGenerations = "oc get machineconfiguration cluster -o jsonpath={.metadata.generation}={.status.observedGeneration}"
	applyConfig    = "oc apply -f config.yaml"
)

// newTestCluster returns a cluster of one node and a directory with files to apply.
func newTestCluster(t *testing.T, files map[string]string) (c *oc.Cluster, dir string, run func(command string) string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	c, err := oc.New(t.Context(), []byte(noEntries), []oc.Node{{Name: "master0", Daemon: &mcd.Daemon{Machine: disk{"/etc/http01-proxyd": "x"}}}})
	must(t, err)
	c.Rollouts()
	return c, dir, func(command string) string {
		t.Helper()
		out, err := c.Run(t.Context(), dir, strings.Fields(command)[1:]...)
		must(t, err)
		return out
	}
}

// TestPolicyTakesEffectOnNextWrite holds that the operator observes a policy some time after it
// was applied. Without waiting for that, hosts reboot.
func TestPolicyTakesEffectOnNextWrite(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		commands []string
		looks    []string // generations between the commands
		reboots  bool
	}{
		"not waited for":         {[]string{applyPolicy, applyConfig}, nil, true},
		"read but not awaited":   {[]string{applyPolicy, getGenerations, applyConfig}, []string{"2=1"}, true},
		"waited for":             {[]string{applyPolicy, getGenerations, getGenerations, applyConfig}, []string{"2=1", "2=2"}, false},
		"in force before":        {[]string{applyPolicy, getGenerations, getGenerations, applyPolicy, getGenerations, applyConfig}, []string{"2=1", "2=2", "2=2"}, false},
		"read before only":       {[]string{getGenerations, getGenerations, applyPolicy, applyConfig}, []string{"1=1", "1=1"}, true},
		"the policy after all":   {[]string{applyConfig, applyPolicy, getGenerations, getGenerations}, []string{"2=1", "2=2"}, true},
		"without any policy yet": {[]string{getGenerations, applyConfig}, []string{"1=1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, run := newTestCluster(t, map[string]string{"policy.yaml": entry, "config.yaml": motd})
			var looks []string
			for _, command := range tt.commands {
				if out := run(command); command == getGenerations {
					looks = append(looks, out)
				}
			}
			if diff := cmp.Diff(tt.looks, looks); diff != "" {
				t.Errorf("the generations (-want +got):\n%s", diff)
			}
			if got := reboots(t, c.Rollouts()); !cmp.Equal([]bool{tt.reboots}, got) {
				t.Errorf("reboots: %v, want one update with %v", got, tt.reboots)
			}
		})
	}
}

// TestForeignWriteReboots holds that a merge patch or a replacement by another tool removes
// entries without a message, and that the next change then reboots. Applying the policy
// again prevents that.
func TestForeignWriteReboots(t *testing.T) {
	t.Parallel()
	const foreign = "nodeDisruptionPolicy: {files: [{path: /etc/sysconfig/nftables.conf, actions: [{type: None}]}]}"
	for tool, write := range map[string]string{
		"merge patch": "oc patch machineconfiguration cluster --type=merge --patch-file=patch.yaml",
		"replace":     "oc replace -f replacement.yaml",
	} {
		for name, tt := range map[string]struct {
			between []string
			reboots bool
		}{
			"observed":             {[]string{write, getGenerations, getGenerations}, true},
			"not observed":         {[]string{write}, false},
			"applied, not awaited": {[]string{write, getGenerations, getGenerations, applyPolicy}, true},
			"applied":              {[]string{write, applyPolicy, getGenerations, getGenerations}, false},
		} {
			t.Run(tool+", "+name, func(t *testing.T) {
				t.Parallel()
				c, _, run := newTestCluster(t, map[string]string{
					"policy.yaml": entry, "config.yaml": motd,
					"patch.yaml":       "spec: {" + foreign + "}\n",
					"replacement.yaml": strings.Replace(noEntries, "Managed}", "Managed, "+foreign+"}", 1),
				})
				for _, command := range slices.Concat([]string{applyPolicy, getGenerations, getGenerations}, tt.between[:1]) {
					run(command)
				}
				if policy := string(c.Policy()); strings.Contains(policy, "path: /etc/motd") {
					t.Errorf("the entry is in the policy:\n%s", policy)
				}
				for _, command := range append(slices.Clone(tt.between[1:]), applyConfig) {
					run(command)
				}
				if got := reboots(t, c.Rollouts()); !cmp.Equal([]bool{tt.reboots}, got) {
					t.Errorf("reboots: %v, want one update with %v", got, tt.reboots)
				}
				// The foreign entry stays.
				if policy := string(c.Policy()); !strings.Contains(policy, "/etc/sysconfig/nftables.conf") {
					t.Errorf("the policy:\n%s", policy)
				}
			})
		}
	}
}

// TestLayeredPool holds that a pool with a MachineOSConfig reboots for every change before
// 4.20, and follows the policy from 4.20.
func TestLayeredPool(t *testing.T) {
	t.Parallel()
	for flavour, want := range map[mcd.Flavour]bool{mcd.OpenShift418: true, mcd.OpenShift420: false} {
		t.Run(flavour.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, content := range map[string]string{"policy.yaml": entry, "config.yaml": motd} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			c, err := oc.New(t.Context(), []byte(noEntries), []oc.Node{{Name: "master0", Daemon: &mcd.Daemon{Machine: disk{}, Flavour: flavour}}})
			must(t, err)
			c.Rollouts()
			c.Layer()
			for _, command := range []string{applyPolicy, getGenerations, getGenerations, applyConfig} {
				_, err := c.Run(t.Context(), dir, strings.Fields(command)[1:]...)
				must(t, err)
			}
			if got := reboots(t, c.Rollouts()); !cmp.Equal([]bool{want}, got) {
				t.Errorf("reboots: %v, want %v", got, want)
			}
		})
	}
}

// TestPause holds that changes of a paused pool come in one update.
func TestPause(t *testing.T) {
	t.Parallel()
	c, _, run := newTestCluster(t, map[string]string{"policy.yaml": entry, "config.yaml": motd, "kernel.yaml": kernelArgument})
	for _, command := range []string{applyPolicy, getGenerations, getGenerations} {
		run(command)
	}
	c.Pause()
	run(applyConfig)
	run("oc apply -f kernel.yaml")
	if got := c.Rollouts(); len(got) > 0 {
		t.Errorf("a paused pool has updates: %v", got)
	}
	must(t, c.Resume(t.Context()))
	if got := reboots(t, c.Rollouts()); !cmp.Equal([]bool{true}, got) {
		t.Errorf("reboots: %v, want one update, with one", got)
	}
}

// reboots returns for each update whether it needs a reboot.
func reboots(t *testing.T, rollouts []oc.Rollout) []bool {
	t.Helper()
	var all []bool
	for _, r := range rollouts {
		if r.Report.Degraded != nil {
			t.Errorf("%s: %v", r.Node, r.Report.Degraded)
		}
		all = append(all, r.Report.Rebooted)
	}
	return all
}

// TestUnknownCommands holds that commands outside the documentation are rejected.
func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	c, dir, _ := newTestCluster(t, map[string]string{"policy.yaml": entry, "config.yaml": motd})
	for command, want := range map[string]string{
		"oc":                                    "a verb is missing",
		"oc patch mcp/master":                   "no test patches",
		"oc edit mcp/master":                    "no such verb",
		"oc apply -f policy.yaml":               "does not apply a MachineConfiguration like this",
		"oc apply --server-side -f config.yaml": "does not apply a MachineConfig like this",

		"oc apply --force-conflicts -f config.yaml":        "force-conflicts",
		"oc delete -f config.yaml":                         "is not in the cluster",
		"oc replace -f config.yaml":                        "no test replaces a MachineConfig",
		"oc get mcp master":                                "does not get",
		"oc wait mcp/master --for=condition=Updating":      "timed out",
		"oc debug node/master9 -- chroot /host true":       "there is no node master9",
		"oc debug node/master0 -- true":                    "give node/NAME -- chroot /host COMMAND",
		"oc debug --tty node/master0 -- chroot /host true": "-tty",
		"oc get nodes master0 master9 -o json":             "not all of the nodes",
		"oc get nodes":                                     "does not get",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			_, err := c.Run(t.Context(), dir, strings.Fields(command)[1:]...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want something with %q", err, want)
			}
		})
	}
}

// TestNodes: nodes are listed by label or name, and run commands.
func TestNodes(t *testing.T) {
	t.Parallel()
	_, _, run := newTestCluster(t, map[string]string{"policy.yaml": entry})
	for command, want := range map[string]int{
		"oc get nodes --output=json --selector=" + oc.ControlPlaneLabel:        1,
		"oc get nodes --output=json --selector=node-role.kubernetes.io/master": 0,
		"oc get nodes --output=json master0":                                   1,
	} {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		must(t, json.Unmarshal([]byte(run(command)), &list))
		if len(list.Items) != want || want == 1 && list.Items[0].Metadata.Name != "master0" {
			t.Errorf("%s: %+v", command, list)
		}
	}
	if out := run("oc debug --quiet node/master0 -- chroot /host stat --format=%f /etc/http01-proxyd"); out != "81a4\n" {
		t.Errorf("output %q", out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

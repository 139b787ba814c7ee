// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/layout"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const poolObject = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: " +
	"master}\nspec: {paused: false}\n"

// clusterList returns one List for all objects of a cluster: the policy with these active
// lists, a pool, and a MachineConfig.
func clusterList(lists string) string {
	indented := strings.ReplaceAll(strings.TrimSuffix(lists, "\n"), "\n", "\n    ")
	return `apiVersion: v1
kind: List
items:
- apiVersion: operator.openshift.io/v1
  kind: MachineConfiguration
  metadata: {name: cluster, generation: 2}
  spec:
    nodeDisruptionPolicy:
    ` + indented + `
  status:
    observedGeneration: 2
    nodeDisruptionPolicyStatus:
     clusterPolicies:
    ` + indented + `
- apiVersion: machineconfiguration.openshift.io/v1
  kind: MachineConfigPool
  metadata: {name: master}
  spec: {paused: false}
- apiVersion: machineconfiguration.openshift.io/v1
  kind: MachineConfig
  metadata: {name: 00-master, labels: {machineconfiguration.openshift.io/role: master}}
- apiVersion: config.openshift.io/v1
  kind: APIServer
  metadata: {name: cluster}
- apiVersion: config.openshift.io/v1
  kind: ClusterVersion
  metadata: {name: version}
  status: {history: [{state: Completed, version: 4.20.1}]}
`
}

// policyLists returns the lists of the rendered policy.
func policyLists(t *testing.T) string {
	t.Helper()
	_, lists, _ := strings.Cut(string(disruption.InstallerPolicy().Manifest()), "  nodeDisruptionPolicy:\n")
	return lists
}

// TestPreflight: files, folders and standard input, and the exit code.
func TestPreflight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendered := filepath.Join(dir, "rendered")
	if got := runLine(t, "", "render", "--image", image, "--output-dir", rendered); got.code != cli.OK {
		t.Fatalf("%+v", got)
	}
	// A release has other objects in the folder.
	must(t, os.WriteFile(filepath.Join(rendered, "other.yaml"), []byte("kind: PrometheusRule\n"), 0o600))
	full := clusterList(policyLists(t))
	patched := clusterList("    files:\n    - path: /etc/sysconfig/nftables.conf\n      actions: [{type: None}]\n")
	files := map[string]string{
		"full.yaml": full, "patched.yaml": patched, "pool.yaml": poolObject, "empty": "",
		"two.yaml":  poolObject + "---\n" + poolObject,
		"none.yaml": "apiVersion: v1\nitems: []\nkind: List\nmetadata: {resourceVersion: \"\"}\n",
	}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "none"), 0o700))
	// The rendered objects are in the cluster, and "oc get mc" prints the objects of others
	// again.
	var installed strings.Builder
	installed.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for _, name := range []string{"98-master-http01-proxyd.yaml", "98-master-http01-proxyd-config.yaml"} {
		text, err := os.ReadFile(filepath.Join(rendered, name))
		must(t, err)
		installed.WriteString("- " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ") + "\n")
	}
	installed.WriteString(
		"- apiVersion: machineconfiguration.openshift.io/v1\n  kind: MachineConfig\n  metadata: {name: 00-master, labels: " +
			"{machineconfiguration.openshift.io/role: master}}\n")
	must(t, os.WriteFile(filepath.Join(dir, "installed.yaml"), []byte(installed.String()), 0o600))
	at := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(dir, name))
		}
		return all
	}
	for name, tt := range map[string]struct {
		stdin    string
		args     []string
		code     int
		out, err []string
	}{
		"active": {"", at("full.yaml", "rendered"), cli.OK, []string{
			"✓ no problem found",
			"the rendered policy", "1 MachineConfigs of others, 2 of this service",
			"APIServer cluster without named certificates: before you add one, see https://",
		}, nil},
		"installed already": {
			"", at("full.yaml", "rendered", "installed.yaml"), cli.OK,
			[]string{"1 MachineConfigs of others, 2 of this service"},
			nil,
		},
		"one List, from oc": {full, append(at("rendered"), "-"), cli.OK, []string{"✓ no problem found"}, nil},
		"no MachineOSConfigs": {
			strings.Replace(full, "4.20.1", "4.19.7", 1), append(at("rendered"), "-"), cli.Unknown,
			[]string{"Not examined:", "MachineOSConfigs: give the output of \"oc get machineosconfig -o yaml\""},
			nil,
		},
		"their empty List": {
			strings.Replace(full, "4.20.1", "4.19.7", 1), append(at("rendered", "none.yaml"), "-"),
			cli.OK,
			[]string{"no MachineOSConfig of the pool"},
			nil,
		},
		"patched": {"", at("patched.yaml", "rendered"), cli.Unhealthy, []string{
			"[policy-entries-missing]",
			`Run 10-policy/apply.sh of the rendered files`,
			"\n  sh " + rendered + "/10-policy/apply.sh\n",
		}, nil},
		"only a pool": {
			"", at("pool.yaml"), cli.Unknown,
			[]string{"Not examined:", "oc get machineconfiguration cluster -o yaml"},
			nil,
		},
		"another pool": {
			"", append(at("full.yaml"), "--pool", "infra"), cli.Unknown,
			[]string{"oc get mcp infra -o yaml"},
			nil,
		},
		"an empty file": {
			"", at("full.yaml", "empty"), cli.Failure, nil,
			[]string{dir + "/empty: contains no object: give the output of"},
		},
		"two documents": {"", at("two.yaml"), cli.Failure, nil, []string{dir + "/two.yaml: a second document"}},
		"no rendered files": {
			"", at("none", "missing"), cli.Failure, nil,
			[]string{
				dir + `/none has no rendered files: name the folder of "oc http01 render", or files`,
				dir + "/missing: no such file or directory: name a readable file",
			},
		},
		"truncated, on stdin": {full[:len(full)-10] + "\n\t", []string{"-"}, cli.Failure, nil, []string{"standard input:"}},
		"stdin twice": {
			"",
			[]string{"-", "-"},
			cli.Usage, nil,
			[]string{"only one file can be read from standard input"},
		},
		"nothing": {"", nil, cli.Usage, nil, []string{"no file given: name the objects of the cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runLine(t, tt.stdin, append([]string{"preflight"}, tt.args...)...)
			if got.code != tt.code || tt.code <= cli.Usage && tt.code != cli.OK && got.out != "" {
				t.Errorf("exit code %d, want %d\n%s%s", got.code, tt.code, got.out, got.err)
			}
			for _, want := range tt.out {
				if !strings.Contains(got.out, want) {
					t.Errorf("no %q in\n%s", want, got.out)
				}
			}
			for _, want := range tt.err {
				if !strings.Contains(got.err, want) {
					t.Errorf("no %q in\n%s", want, got.err)
				}
			}
			if tt.err == nil && got.err != "" {
				t.Errorf("on standard error: %s", got.err)
			}
		})
	}
	var document report.Preflight
	must(t, json.Unmarshal([]byte(runLine(t, patched, "preflight", "-o", "json", "-").out), &document))
	if document.Kind != "Preflight" || document.Outcome != report.CheckProblem || len(document.Findings) != 1 {
		t.Errorf("%+v", document)
	}
	if diff := cmp.Diff([]string{}, document.NotExamined); diff != "" {
		t.Errorf("not examined (-want +got):\n%s", diff)
	}
}

// TestPreflightExitCodes: docs/reference/exit-codes.md has the exit code of each result.
func TestPreflightExitCodes(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/reference/exit-codes.md")
	must(t, err)
	full := clusterList(policyLists(t))
	results := map[string]struct {
		stdin string
		args  []string
	}{
		"everything was examined":                {full, []string{"-"}},
		"a file cannot be read, or is not an ob": {"hello", []string{"-"}},
		"the command line is wrong":              {"", nil},
		"a problem was found":                    {clusterList("    files: []\n"), []string{"-"}},
		"an object was not given":                {poolObject, []string{"-"}},
	}
	_, section, _ := strings.Cut(string(document), "oc http01 preflight")
	rows := regexp.MustCompile(`(?m)^- (\d): (.+)$`).FindAllStringSubmatch(section, -1)
	if len(rows) != len(results) {
		t.Errorf("%d rows for %d results: %q", len(rows), len(results), rows)
	}
	for begin, tt := range results {
		got := runLine(t, tt.stdin, append([]string{"preflight"}, tt.args...)...)
		i := slices.IndexFunc(rows, func(row []string) bool { return strings.HasPrefix(row[2], begin) })
		if i < 0 || rows[i][1] != strconv.Itoa(got.code) {
			t.Errorf("%s: exit code %d, which is not in %q\n%s", begin, got.code, rows, got.err)
		}
	}
}

// TestPreflightLayouts: the folder of each layout is examined like plain files, with the policy of
// the layout.
func TestPreflightLayouts(t *testing.T) {
	t.Parallel()
	fleet := t.TempDir()
	cluster := filepath.Join(fleet, "cluster.yaml")
	must(t, os.WriteFile(cluster, []byte(clusterList(policyLists(t))), 0o600))
	for _, name := range layout.Names() {
		dir := filepath.Join(fleet, name)
		if got := runLine(t, "", "render", "--layout", name, "--output-dir", dir, "--image", image); got.code != cli.OK {
			t.Fatalf("%+v", got)
		}
		got := runLine(t, "", "preflight", cluster, dir)
		for _, want := range []string{
			"✓ no problem found", "the rendered policy",
			"1 MachineConfigs of others, 2 of this service",
		} {
			if got.code != cli.OK || !strings.Contains(got.out, want) {
				t.Errorf("%s: exit code %d, no %q in\n%s%s", name, got.code, want, got.out, got.err)
			}
		}
		policies, err := filepath.Glob(filepath.Join(dir, "*", "policy.yaml"))
		must(t, err)
		if len(policies) != 1 {
			t.Fatalf("policies: %q", policies)
		}
		must(t, os.WriteFile(policies[0], disruption.LayeredPolicy().Manifest(), 0o600)) // without an entry for the installer
		if got := runLine(t, "", "preflight", cluster, dir); got.code != cli.Unhealthy ||
			!strings.Contains(got.out, "[policy-drops-entries]") {
			t.Errorf("%s with another policy: exit code %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
	got := runLine(t, "", "preflight", cluster, fleet)
	if want := fleet + " has no rendered files: name the folder of"; got.code != cli.Failure ||
		!strings.Contains(got.err, want) {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

func TestUncovered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy     disruption.Policy
		keys, want []string
	}{
		"nothing": {disruption.InstallerPolicy(), nil, nil},
		"ours": {disruption.InstallerPolicy(), []string{
			"/etc/http01-proxyd/config.yaml",
			"/usr/local/bin/http01-proxyd-install", "http01-proxyd.service", "http01-proxyd-table.service",
			"http01-proxyd-install.service", "http01-proxyd-install.timer",
		}, nil},
		"layered": {disruption.LayeredPolicy(), []string{"/etc/http01-proxyd/ca-bundle.crt"}, nil},
		"below":   {disruption.InstallerPolicy(), []string{"/etc/http01-proxyd/conf.d/a"}, nil},
		"beside": {disruption.InstallerPolicy(), []string{
			"/etc/http01-proxyd.yaml", "/usr/local/bin/http01-proxyd",
			"/etc",
		}, []string{"/etc/http01-proxyd.yaml", "/usr/local/bin/http01-proxyd", "/etc"}},
		"a unit":    {disruption.InstallerPolicy(), []string{"x.service"}, []string{"x.service"}},
		"no suffix": {disruption.InstallerPolicy(), []string{"http01-proxyd"}, []string{"http01-proxyd"}},
	} {
		if diff := cmp.Diff(tt.want, tt.policy.Uncovered(tt.keys)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestManifest: the object contains the policy and no other field, since server-side
// apply would take ownership of every field.
func TestManifest(t *testing.T) {
	t.Parallel()
	for _, want := range []disruption.Policy{disruption.InstallerPolicy(), disruption.LayeredPolicy()} {
		var got struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			Spec             struct{ NodeDisruptionPolicy disruption.Policy }
		}
		if err := yaml.UnmarshalStrict(want.Manifest(), &got); err != nil {
			t.Fatal(err)
		}
		if got.APIVersion != "operator.openshift.io/v1" || got.Kind != "MachineConfiguration" ||
			got.Metadata.Name != "cluster" {
			t.Errorf("%+v", got)
		}
		if diff := cmp.Diff(want, got.Spec.NodeDisruptionPolicy); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestScript: the script returns when the cluster uses each entry and the operator has
// observed the newest generation, and not before. A rollout also waits for the nodes. It runs
// unchanged, beside a policy, with a fake oc: each "oc get machineconfiguration" prints the next answer, and the last
// one again.
func TestScript(t *testing.T) {
	t.Parallel()
	const (
		entries = "path: /etc/a\nname: a.service\n"
		applied = "apply --server-side --field-manager=http01-proxyd -f policy.yaml\n"
		uses    = "The cluster uses the entries of "
		rollOut = applied + "apply -f ..\n"
	)
	for name, tt := range map[string]struct {
		args    []string
		answers []string // of oc get machineconfiguration
		names   string   // of oc get machineconfigs
		sources string   // of oc get mcp
		fails   string   // the verb of oc that fails
		changes string   // the output of oc apply for the MachineConfigs
		renders int      // the read of the pool that shows a new configuration; 0: none
		nodes   string   // the configuration of all nodes
		paused  bool     // the pool
		gets    int      // how often the object was read
		out     string   // in the output
		calls   string   // of oc apply
		status  int
	}{
		"active": {answers: []string{"3 3\n" + entries}, gets: 1, out: uses, calls: applied},
		"among others": {
			answers: []string{"3 3\npath: /etc\n" + entries + "name: b.service\n"}, gets: 1,
			out: uses, calls: applied,
		},
		"behind": {
			answers: []string{"13 12\n" + entries, "13 13\n" + entries}, gets: 2, out: uses,
			calls: applied,
		},
		"longer at left": {
			answers: []string{"13 3\n" + entries, "13 13\n" + entries}, gets: 2, out: uses,
			calls: applied,
		},
		"no status yet": {
			answers: []string{"1 \n", " \n", "\n", "1 1\n" + entries}, gets: 4, out: uses,
			calls: applied,
		},
		"an entry is late": {
			answers: []string{"3 3\npath: /etc/a\n", "3 3\n" + entries}, gets: 2, out: uses,
			calls: applied,
		},
		"never": {
			answers: []string{"3 3\npath: /etc/ab\nname: a.service\n"}, gets: 60,
			out: "apply.sh: the active policy has no entry for: path: /etc/a, after 2 minutes. Do not apply", calls: applied,
			status: 1,
		},
		"never observed": {
			answers: []string{"3 2\n" + entries}, gets: 60,
			out: "apply.sh: the operator has observed the generation 2 of 3, after 2 minutes.", calls: applied, status: 1,
		},
		"get fails": {
			fails: "get", gets: 60,
			out: "apply.sh: the MachineConfiguration cluster cannot be read, after 2 minutes.", calls: applied, status: 1,
		},
		"a conflict": {
			fails: "apply", out: "apply.sh: oc cannot apply policy.yaml. After a conflict, agree",
			calls: applied, status: 1,
		},
		"release": {
			args: []string{"release"}, names: "machineconfig.machineconfiguration.openshift.io/00-master\n",
			calls: "spec: {}\n",
		},
		"release too early": {
			args:  []string{"release"},
			names: "machineconfig.machineconfiguration.openshift.io/98-master-http01-proxyd-config\n",
			out: "apply.sh: these MachineConfigs need the entries: " +
				"machineconfig.machineconfiguration.openshift.io/98-master-http01-proxyd-config. Delete them first.", status: 1,
		},
		"still updating": {
			args: []string{"release"}, names: "machineconfig.machineconfiguration.openshift.io/00-master\n",
			sources: "pool/00-master\npool/98-master-http01-proxyd\n",
			out: "Waiting until the nodes no longer have pool/98-master-http01-proxyd. If the pool is paused, resume it.\n" +
				"apply.sh: nodes still have pool/98-master-http01-proxyd after 30 minutes.", status: 1,
		},
		"release, no list": {
			args: []string{"release"}, fails: "get", out: "apply.sh: oc cannot list the MachineConfigs.",
			status: 1,
		},
		"roll out a change": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, changes: "a configured\nb unchanged",
			renders: 4, nodes: "b", out: "All nodes of the pool infra have the configuration b.\n", calls: rollOut,
		},
		"roll out the same files": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, changes: "a unchanged\nb unchanged",
			nodes: "a", out: "All nodes of the pool infra have the configuration a.\n", calls: rollOut,
		},
		"a node is not updated": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, changes: "a configured\nb unchanged",
			renders: 2, nodes: "a", out: "apply.sh: not all nodes have it after 30 minutes.", calls: rollOut, status: 1,
		},
		"the operator renders nothing": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, changes: "a created\nb created",
			out:   "apply.sh: the pool infra has no new configuration after 2 minutes.",
			calls: rollOut, status: 1,
		},
		"roll out to a paused pool": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, changes: "a configured\nb unchanged",
			paused: true, out: "The pool infra is paused: its nodes do not change. Resume it, then run", calls: rollOut,
		},
		"roll out after a conflict": {
			args: []string{"rollout"}, fails: "apply", out: "apply.sh: oc cannot apply policy.yaml.", calls: applied, status: 1,
		},
		"a typo": {args: []string{"relase"}, out: "usage: ", status: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, text := range tt.answers {
				must(os.WriteFile(filepath.Join(dir, strconv.Itoa(i+1)), []byte(text), 0o600))
			}
			must(os.Mkdir(filepath.Join(dir, "10-policy"), 0o700))
			for file, text := range map[string]string{
				"98-infra-http01-proxyd.yaml":        "",
				"98-infra-http01-proxyd-config.yaml": "",
				"10-policy/apply.sh":                 string(disruption.Script()),
				"10-policy/policy.yaml": "metadata:\n  name: cluster\nspec:\n  - path: /etc/a\n    actions: []\n  - actions:\n    - " +
					"restart:\n        serviceName: b.service\n    name: a.service\n",
				"names":   tt.names,
				"sources": tt.sources,
				"changes": tt.changes,
				"sleep":   "#!/bin/sh\n",
				"oc": `#!/bin/sh
dir=` + dir + `
case "$1 $2" in
"apply -f") echo "$@" >>$dir/calls; cat $dir/changes ;;
"apply "*) echo "$@" >>$dir/calls; case $5 in /*) tail -n 1 "$5" >$dir/calls ;; esac ;;
"get machineconfigs") cat $dir/names ;;
"get mcp")
	case "$3 $5" in
	"infra jsonpath={.spec.configuration.name}"*)
		echo >>$dir/pools
		[ $(wc -l <$dir/pools) = ` + strconv.Itoa(tt.renders) + ` ] && echo b >$dir/name
		name=$(cat $dir/name 2>/dev/null || echo a)
		case $5 in *status*) echo "$name ` + tt.nodes + `" ;; *) echo $name ;; esac ;;
	"infra jsonpath={.spec.paused}") echo ` + strconv.FormatBool(tt.paused) + ` ;;
	*) cat $dir/sources ;;
	esac ;;
"get machineconfiguration")
	echo >>$dir/gets
	next=$(wc -l <$dir/gets)
	while [ $next -gt 1 ] && [ ! -e $dir/$next ]; do next=$((next - 1)); done
	cat $dir/$next 2>/dev/null ;;
esac
[ "$1" != "` + tt.fails + `" ]
`,
			} {
				must(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755))
			}
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(dir, disruption.ScriptFile)}, tt.args...)...)
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + dir}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if cmd.ProcessState.ExitCode() != tt.status || !strings.Contains(string(out), tt.out) {
				t.Errorf("exit status %d, want %d and %q:\n%s", cmd.ProcessState.ExitCode(), tt.status, tt.out, out)
			}
			read := func(name string) string {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if !errors.Is(err, fs.ErrNotExist) {
					must(err)
				}
				return string(text)
			}
			if diff := cmp.Diff([]string{tt.calls, strings.Repeat("\n", tt.gets)},
				[]string{read("calls"), read("gets")}); diff != "" {
				t.Errorf("oc apply and oc get (-want +got):\n%s", diff)
			}
		})
	}
}

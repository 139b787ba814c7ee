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
// unchanged, beside a policy, with a fake oc: after the policy is applied, each "oc get machineconfiguration"
// prints the next answer, and the last one again.
func TestScript(t *testing.T) {
	t.Parallel()
	const (
		entries = "path: /etc/a\nname: a.service\n"
		applied = "apply --server-side --field-manager=http01-proxyd -f policy.yaml\n"
		uses    = "The cluster uses the entries of "
		rollOut = applied + "apply -f ..\n"
		policy  = "apply --server-side *"
	)
	for name, tt := range map[string]struct {
		args    []string
		answers []string // of oc get machineconfiguration
		names   string   // of oc get machineconfigs
		sources string   // of oc get mcp
		owned   string   // the contents of the MachineConfigs before
		fails   string   // pattern of the calls of oc that fail
		message string   // of oc when it fails
		late    bool     // it fails only after the policy is applied
		removed string   // a file of the configuration a that the MachineConfigs no longer contain
		config  string   // the configuration that contains the MachineConfigs
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
			fails: "get machineconfiguration *", message: "Error: 500", late: true, gets: 60,
			out:   "apply.sh: cannot read the MachineConfiguration cluster (Error: 500), after 2 minutes.",
			calls: applied, status: 1,
		},
		"a conflict": {
			fails: policy, message: `error: Apply failed with 1 conflict: conflict with "kubectl"`,
			out:   "apply.sh: cannot apply policy.yaml. Agree on the actions with the other field manager.",
			calls: applied, status: 1,
		},
		"too many entries": {
			fails: policy, message: "spec.nodeDisruptionPolicy.files: Too many: 54: must have at most 50 items",
			out:   "apply.sh: cannot apply policy.yaml. Ask the owners of other entries to remove some",
			calls: applied, status: 1,
		},
		"no right to change the policy": {
			fails: policy, message: `machineconfigurations "cluster" is forbidden: User "a" cannot patch`,
			out:   "apply.sh: cannot apply policy.yaml. A cluster-admin must grant you this right",
			calls: applied, status: 1,
		},
		"no right to read the policy": {
			fails: "get machineconfiguration *", message: `machineconfigurations "cluster" is forbidden: User "a" cannot get`,
			out: "apply.sh: cannot read the MachineConfiguration cluster. A cluster-admin must grant you this right", status: 1,
		},
		"an error of the API server": {
			fails: policy, message: "Error from server (TooManyRequests): Too many requests",
			out:   "apply.sh: cannot apply policy.yaml. Correct the error, then run this command again.",
			calls: applied, status: 1,
		},
		"our names are taken": {
			args: []string{"rollout"}, owned: "98-infra-http01-proxyd kernelArguments\n" +
				"98-infra-http01-proxyd http01-proxyd.service \"a\"\n98-infra-http01-proxyd var-x\\x2dy.mount \"a\"\n" +
				"98-infra-http01-proxyd-config /etc/it's 420 data:,a\n",
			out: "apply.sh: MachineConfigs with our names contain something that is not ours: 98-infra-http01-proxyd " +
				`(kernelArguments) 98-infra-http01-proxyd (var-x\x2dy.mount) 98-infra-http01-proxyd-config (/etc/it's). ` +
				"Ask the owner", status: 1,
		},
		"the name of our policy is taken": {
			owned: "98-infra-http01-proxyd /etc/motd data:,a\n",
			out: "apply.sh: MachineConfigs with our names contain something that is not ours: 98-infra-http01-proxyd " +
				"(/etc/motd).", status: 1,
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
			out: "Waiting: nodes still have pool/98-master-http01-proxyd. If the pool is paused, resume it.\n" +
				"apply.sh: nodes still have pool/98-master-http01-proxyd, after 30 minutes.", status: 1,
		},
		"release, no list": {
			args: []string{"release"}, fails: "get *", out: "apply.sh: cannot list the MachineConfigs. Correct the error",
			status: 1,
		},
		"roll out a change": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, config: "b",
			renders: 4, nodes: "b", out: "All nodes of the pool infra have the configuration b.\n", calls: rollOut,
		},
		"the operator reacts late": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, config: "b",
			renders: 40, nodes: "b", out: "All nodes of the pool infra have the configuration b.\n", calls: rollOut,
		},
		"a file is removed": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, config: "a b",
			removed: "/etc/http01-proxyd/old", renders: 4, nodes: "b",
			out: "All nodes of the pool infra have the configuration b.\n", calls: rollOut,
		},
		"roll out the same files": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, config: "a",
			nodes: "a", out: "All nodes of the pool infra have the configuration a.\n", calls: rollOut,
		},
		"a node is not updated": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, config: "b",
			renders: 2, nodes: "a", out: "apply.sh: not all nodes have the configuration b, after 30 minutes.", calls: rollOut,
			status: 1,
		},
		"the operator renders nothing": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1,
			out: "apply.sh: the configuration a of the pool infra differs from the MachineConfigs in: " +
				"/etc/http01-proxyd/a http01-proxyd.service http01-proxyd.service.d/a.conf, after 2 minutes.",
			calls: rollOut, status: 1,
		},
		"roll out to a paused pool": {
			args: []string{"rollout"}, answers: []string{"3 3\n" + entries}, gets: 1, paused: true,
			out: "The pool infra is paused: its nodes do not change. Resume it, then run", calls: rollOut,
		},
		"roll out after a conflict": {
			args: []string{"rollout"}, fails: policy, out: "apply.sh: cannot apply policy.yaml.", calls: applied, status: 1,
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
				"owned":   tt.owned,
				"message": tt.message,
				"sleep":   "#!/bin/sh\n",
				"oc": `#!/bin/sh
dir=` + dir + `
case "$1 $2" in
"apply -f") echo "$@" >>$dir/calls ;;
"apply "*) echo "$@" >>$dir/calls; case $5 in /*) tail -n 1 "$5" >$dir/calls ;; esac ;;
"get machineconfigs")
	case $5 in
	--ignore-not-found) cat $dir/owned ;;
	?)
		own() {
			printf '%s\n' "$1 /etc/http01-proxyd/a data:,a" "$1 http01-proxyd.service \"a\\nb\"" \
				"$1 http01-proxyd.service.d/a.conf \"c\""
		}
		own 98-infra-http01-proxyd
		[ "$5" != a ] || [ -z "` + tt.removed + `" ] || echo "a ` + tt.removed + ` data:,old"
		printf '%s\n' "$5 /etc/motd data:,a" "$5 http01-proxyd.service.d/other.conf \"d\""
		case "` + tt.config + `" in *$5*) own $5 ;; esac ;;
	*) cat $dir/names ;;
	esac ;;
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
	[ -e $dir/calls ] && echo >>$dir/gets || touch $dir/gets
	next=$(wc -l <$dir/gets)
	while [ $next -gt 1 ] && [ ! -e $dir/$next ]; do next=$((next - 1)); done
	cat $dir/$next 2>/dev/null ;;
esac
` + strconv.FormatBool(tt.late) + ` && [ ! -e $dir/calls ] && exit
case "$*" in
''` + strings.ReplaceAll(tt.fails, " ", `" "`) + `)
	cat $dir/message >&2
	exit 1 ;;
esac
exit 0
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

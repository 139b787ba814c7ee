// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/openshift"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// errNoEtcd is the error of an API server whose etcd has no leader.
var errNoEtcd = errors.New("etcdserver: no leader")

// run is the context of the whole run, which a signal ends.
var run context.Context

func TestMain(m *testing.M) {
	labtest.Main(m, func(ctx context.Context, _ string) { run = ctx })
}

// site is a cluster without nodes.
type site struct {
	api      *cluster.Cluster
	client   dynamic.Interface
	programs openshift.Programs
	token    string // of a user with all rights
	renderer string // path of oc-http01
}

// newSite starts the API server, the operator and the controller.
func newSite(t *testing.T) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	s := &site{programs: must1(openshift.Build(run))(t), renderer: must1(lab.BuildCommand(run, "oc-http01"))(t)}
	l, nodes, err := lab.NewBare(run, "gateway")
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	node := nodes[0]
	node.Addresses = lab.Pair{V4: netip.MustParseAddr("192.0.2.1")}
	must(t, node.RunCommands(run, []string{"ip link set lo up", "ip address add 192.0.2.1/32 dev lo"}))
	l.Gateway = node
	s.api = must1(cluster.StartAPI(run, l, node, s.programs.Programs, cluster.WithRBAC()))(t)
	s.client = must1(dynamic.NewForConfig(s.api.Config))(t)
	s.token = s.api.Config.BearerToken
	controllers := must1(openshift.StartControllers(run, s.api, s.programs))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(controllers.Logs(run))
		}
		must(t, controllers.Close())
	})
	return s
}

// TestRefusals: the cluster refuses a change. The message names the act, the object and the remediation, and
// a second run completes the change.
func TestRefusals(t *testing.T) {
	s := newSite(t)
	t.Run("policy", func(t *testing.T) { policyOfOthers(t, s) })
	t.Run("pools", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *site){
			"outages": outages, "rights": rights, "names": names, "same contents": sameContents,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, s)
			})
		}
	})
	t.Run("release", func(t *testing.T) { releaseRefused(t, s) })
}

// policyStart is a MachineConfiguration up to its entries.
const policyStart = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
`

// entries returns a MachineConfiguration with entries of somebody else.
func entries(list, key string, n int) string {
	var text strings.Builder
	text.WriteString(policyStart + "    " + list + ":\n")
	for i := range n {
		fmt.Fprintf(&text, "    - {"+key+", actions: [{type: None}]}\n", i)
	}
	return text.String()
}

// policyOfOthers: the policy has no room for our entries, or contains one of them with other actions.
func policyOfOthers(t *testing.T, s *site) {
	t.Helper()
	a := newAdmin(t, s, "policy")
	const apply = "oc apply --server-side --field-manager=site -f site.yaml"
	for _, test := range []struct {
		object    string
		predicted []string
		want      []string
	}{
		{
			entries("files", "path: /etc/site/%d", 47),
			[]string{"policy-too-many-entries", "policy-entries-missing"},
			[]string{
				"must have at most 50 items",
				"apply.sh: cannot apply policy.yaml. Ask the owners of other entries to remove some",
			},
		},
		{
			entries("units", "name: site-%d.service", 47),
			[]string{"policy-too-many-entries", "policy-entries-missing"},
			[]string{"must have at most 50 items", "apply.sh: cannot apply policy.yaml. Ask the owners"},
		},
		{
			policyStart + "    files: [{path: /etc/http01-proxyd, actions: [{type: Reboot}]}]\n",
			[]string{"policy-entries-missing", "policy-entries-reboot"},
			[]string{
				"conflict with \"site\"",
				"apply.sh: cannot apply policy.yaml. Agree on the actions with the other field manager. " +
					"Do not use --force-conflicts.",
			},
		},
	} {
		a.write("site.yaml", test.object)
		a.must(apply)
		a.expectFindings(test.predicted...)
		a.refused(s.token, rollout, "machineconfigs", test.want...)
	}
	a.write("site.yaml", entries("files", "path: /etc/site/%d", 46))
	a.must(apply)
	a.must(rollout)
	a.completed()
}

// expectFindings waits until preflight reports these findings: the operator observes a policy later.
func (a *admin) expectFindings(want ...string) {
	a.t.Helper()
	must(a.t, lab.Eventually(a.t.Context(), "the findings", func(context.Context) error {
		if found := a.preflight(); !slices.Equal(found, want) {
			return fmt.Errorf("preflight reports %q, want %q", found, want)
		}
		return nil
	}))
}

// outages: the API server fails at some moment of a rollout.
func outages(t *testing.T, s *site) {
	t.Helper()
	const (
		patched = "PATCH .*/machineconfigurations/"
		created = "POST .*/machineconfigs"
		long    = 30 * time.Second
		endless = time.Hour
	)
	for name, test := range map[string]struct {
		outage outage
		want   string // the error; "": the first run succeeds
		either bool   // the first run may succeed: oc repeats a request ten times after 429
	}{
		"500": {
			outage{status: 500, lasts: endless},
			"cannot read the MachineConfigs of the pool 500. Correct the error, then run this command again.", false,
		},
		"429": {
			outage{status: 429, lasts: long},
			"cannot read the MachineConfigs of the pool 429. Correct the error", true,
		},
		"500-observe": {outage{status: 500, after: patched, lasts: long}, "", false},
		"500-half": {
			outage{status: 500, after: created, lasts: endless},
			"cannot apply the MachineConfigs. Correct the error, then run this command again.", false,
		},
		"500-wait": {outage{status: 500, after: created, times: 2, lasts: long}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAdmin(t, s, name)
			a.fail(test.outage)
			out, err := a.run(s.token, rollout)
			if !a.happened() {
				t.Fatal("no request failed")
			}
			fails := err != nil
			if fails != (test.want != "") && !test.either {
				t.Errorf("the first run: %v, want %q", err, test.want)
			}
			if fails && !strings.Contains(out, test.want) {
				t.Errorf("no %q in the output of the first run", test.want)
			}
			a.fail(outage{}) // none from now on
			a.must(rollout)
			a.completed()
		})
	}
}

// rights: the user has no rights on some objects.
func rights(t *testing.T, s *site) {
	t.Helper()
	const machine, operator = "machineconfiguration.openshift.io", "operator.openshift.io"
	all := []string{rbacv1.ResourceAll}
	common := []rbacv1.PolicyRule{may("", all), may("rbac.authorization.k8s.io", all), may("config.openshift.io", all)}
	for name, test := range map[string]struct {
		rules  []rbacv1.PolicyRule
		want   []string
		unread bool // preflight cannot examine the policy
	}{
		"no-policy": {
			[]rbacv1.PolicyRule{may(machine, all)},
			[]string{
				`machineconfigurations.operator.openshift.io "cluster" is forbidden: User `,
				"apply.sh: cannot read the MachineConfiguration cluster. A cluster-admin must grant you this right",
			},
			true,
		},
		"read-policy": {
			[]rbacv1.PolicyRule{may(machine, all), may(operator, all, "get", "list", "watch")},
			[]string{"is forbidden: User ", "apply.sh: cannot apply policy.yaml. A cluster-admin must grant you this right"},
			false,
		},
		"read-configs": {
			[]rbacv1.PolicyRule{
				may(machine, []string{"machineconfigpools"}), may(machine, all, "get", "list", "watch"), may(operator, all),
			},
			[]string{
				"is forbidden: User ", "apply.sh: cannot apply the MachineConfigs. A cluster-admin must grant you this right",
			},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAdmin(t, s, name)
			token := s.createUser(t, name, slices.Concat(common, test.rules)...)
			const unread = `the node disruption policy: give the output of "oc get machineconfiguration cluster -o yaml"`
			if out, _ := a.examine(token); strings.Contains(out, unread) != test.unread {
				t.Errorf("preflight: the policy is not examined: %t, want %t", !test.unread, test.unread)
			}
			a.refused(token, rollout, "machineconfigs", test.want...)
			a.must(rollout)
			a.completed()
		})
	}
}

// names: somebody else uses the names of our MachineConfigs.
func names(t *testing.T, s *site) {
	t.Helper()
	a := newAdmin(t, s, "names")
	const foreign = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 98-names-http01-proxyd
  labels: {machineconfiguration.openshift.io/role: names}
spec:
  kernelArguments: [nosmt]
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - {path: /etc/motd, mode: 0644, contents: {source: "data:,hello"}}
`
	a.write("other.yaml", foreign)
	a.must("oc create -f other.yaml")
	a.expectFindings("machineconfig-name-taken")
	const want = "apply.sh: MachineConfigs with our names contain something that is not ours: 98-names-http01-proxyd " +
		"(kernelArguments) 98-names-http01-proxyd (/etc/motd). Ask the owner to move it"
	a.refused(s.token, rollout, ".", want)
	a.refused(s.token, "sh rendered/10-policy/apply.sh", ".", want)
	a.must("oc delete -f other.yaml")
	a.must(rollout)
	a.completed()
}

// sameContents: an annotation of our MachineConfig differs, and the files are the same.
func sameContents(t *testing.T, s *site) {
	t.Helper()
	a := newAdmin(t, s, "same")
	a.must(rollout)
	file := filepath.Join(a.dir, "rendered", "98-same-http01-proxyd-config.yaml")
	text := string(must1(os.ReadFile(file))(t))
	text = strings.Replace(text, "  labels:\n", "  annotations: {example.com/a: b}\n  labels:\n", 1)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	if out := a.must(rollout); !strings.Contains(out, "98-same-http01-proxyd-config configured") {
		t.Error("oc has not changed the annotation")
	}
	a.completed()
}

// releaseRefused: the entries are needed, or the API server fails, or the user has no rights.
func releaseRefused(t *testing.T, s *site) {
	t.Helper()
	a := newAdmin(t, s, "release")
	a.must(rollout)
	a.refused(s.token, release, ".", "apply.sh: these MachineConfigs need the entries: ",
		"/98-release-http01-proxyd", ". Delete them first.")
	a.must("oc get mc -o name | grep http01-proxyd | xargs oc delete")
	token := s.createUser(t, "release", may("machineconfiguration.openshift.io", []string{rbacv1.ResourceAll}))
	a.refused(token, release, ".", "is forbidden: User ",
		"apply.sh: cannot remove the entries. A cluster-admin must grant you this right")
	a.fail(outage{status: http.StatusInternalServerError, after: "GET .*/machineconfigpools", lasts: time.Hour})
	a.refused(s.token, release, ".",
		"apply.sh: cannot remove the entries. Correct the error, then run this command again.")
	a.fail(outage{}) // none from now on
	a.must(release)
	a.removed()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

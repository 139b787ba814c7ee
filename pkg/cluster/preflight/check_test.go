// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/preflight"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// policyText returns the lists of the policy that the service needs, indented for the
// spec.
func policyText() string {
	_, lists, _ := strings.Cut(string(disruption.InstallerPolicy().Manifest()), "  nodeDisruptionPolicy:\n")
	return lists
}

// configuration returns the MachineConfiguration of a cluster with these lists in the spec
// and in the status, and the observed generation.
func configuration(spec, status, observed string) string {
	return "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\n  " +
		"generation: 7\nspec:\n  managementState: Managed\n" +
		"  nodeDisruptionPolicy:\n" + spec + "status:\n  observedGeneration: " + observed +
		"\n  nodeDisruptionPolicyStatus:\n   clusterPolicies:\n" + status
}

// without removes the entry of a key.
func without(t *testing.T, lists, key string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^    - (path|name): ` + regexp.QuoteMeta(key) + `\n(      .*\n)+`)
	if !found.MatchString(lists) {
		t.Fatalf("no %s in\n%s", key, lists)
	}
	return found.ReplaceAllString(lists, "")
}

func pool(spec, conditions string) string {
	return "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: master}\nspec: {" +
		spec + "}\nstatus: {conditions: [" + conditions + "]}\n"
}

func osConfig(of string) string {
	return "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineOSConfig\nmetadata: {name: layered}\nspec: " +
		"{machineConfigPool: {name: " + of + "}}\n"
}

func version(release string) string {
	return "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {desired: " +
		"{version: 4.99.0}, history: [{state: Partial, version: 4.99.0}, {state: Completed, version: " + release + "}]}\n"
}

func machineConfig(name, role, config string) string {
	return "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: " + name +
		", labels: {machineconfiguration.openshift.io/role: " + role + "}}\nspec: {config: {" + config + "}}\n"
}

func osImage(name, role string) string {
	return strings.Replace(machineConfig(name, role, ""), "spec: {", "spec: {osImageURL: registry.example.com/a@sha256:b, ", 1)
}

func apiServer(certificates string) string {
	return "apiVersion: config.openshift.io/v1\nkind: APIServer\nmetadata: {name: cluster}\nspec: {servingCerts: " +
		"{namedCertificates: [" + certificates + "]}}\n"
}

const (
	none = "apiVersion: v1\nkind: List\nitems: []\n"
	// The file of ourConfig, in plain text and compressed.
	ourConfig  = "98-master-http01-proxyd-config"
	configFile = "storage: {files: [{path: /etc/http01-proxyd/config.yaml, contents: {source: 'data:,a'}}]}"
	compressed = "storage: {files: [{path: /etc/http01-proxyd/config.yaml, contents: {compression: gzip}}]}"
	chony      = "storage: {files: [{path: /etc/chrony.conf}]}, systemd: {units: [{name: chronyd.service}]}"
)

// inputs names the files a.yaml, b.yaml and so on.
func inputs(texts ...string) (files []machineconfig.Input) {
	for i, text := range texts {
		files = append(files, machineconfig.Input{Name: string(rune('a'+i)) + ".yaml", Text: []byte(text)})
	}
	return files
}

func examine(t *testing.T, texts ...string) report.Preflight {
	t.Helper()
	objects, err := preflight.Parse(inputs(texts...))
	if err != nil {
		t.Fatal(err)
	}
	return preflight.Check(objects, "master")
}

// TestCheck: each fault gives its finding. The objects of a healthy cluster give none.
func TestCheck(t *testing.T) {
	t.Parallel()
	full := policyText()
	live := configuration(full, full, "7")
	healthy := func(live string, more ...string) []string {
		return append([]string{
			live, pool("paused: false", "{type: Degraded, status: \"False\"}"), none,
			machineConfig("00-master", "master", chony),
		}, more...)
	}
	withEntry := func(lists, entry string) string {
		return strings.Replace(lists, "    files:\n", "    files:\n"+entry, 1)
	}
	rendered, err := os.ReadFile("../../../machineconfigs/98-master-http01-proxyd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	renderedPolicy, err := os.ReadFile("../../../machineconfigs/10-policy/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	others := func(n int) string {
		var text strings.Builder
		text.WriteString("    files:\n")
		for i := range n {
			fmt.Fprintf(&text, "    - {path: /etc/site/%d, actions: [{type: None}]}\n", i)
		}
		return text.String()
	}
	const timer, directory = "http01-proxyd-install.timer", "/etc/http01-proxyd"
	streamPool := pool("osImageStream: {name: rhel-10}", "")
	const newUnit = "    - name: http01-proxyd-new.service\n      actions: [{type: DaemonReload}]\n"
	reboot := "    - path: /etc/http01-proxyd/config.yaml\n      actions: [{type: Reboot}]\n"
	for name, tt := range map[string]struct {
		objects []string
		ids     []string
		text    string // in a message or a remediation
	}{
		"healthy":             {healthy(live), nil, ""},
		"with rendered files": {healthy(live, string(rendered), string(renderedPolicy)), nil, ""},
		"a unit's entry missing": {
			healthy(configuration(without(t, full, timer), without(t, full, timer), "7")),
			[]string{"policy-entries-missing"},
			"no entry for http01-proxyd-install.timer. A merge patch",
		},
		"all entries missing": {healthy(configuration("    files: []\n",
			"    files: [{path: /etc/motd, actions: [{type: None}]}]\n", "7")), []string{"policy-entries-missing"}, directory +
			", /usr/local/bin/http01-proxyd-install, "},
		"no policy and no status": {healthy(
			"apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster, generation: " +
				"1}\nspec: {}\n"), []string{"policy-entries-missing", "policy-not-observed"}, "generation 0 of 1"},
		"removed, not observed": {
			healthy(configuration(without(t, full, timer), full, "6")),
			[]string{"policy-entries-missing", "policy-not-observed"},
			timer,
		},
		"applied, not observed": {
			healthy(configuration(full, without(t, full, timer), "6")),
			[]string{"policy-not-observed"},
			"it has observed the generation 6 of 7",
		},
		"observed, not active": {
			healthy(configuration(full, without(t, full, directory), "7")),
			[]string{"policy-not-observed"},
			"the active policy contains no entry for " + directory,
		},
		"Reboot for a deeper path": {
			healthy(configuration(withEntry(full, reboot), withEntry(full, reboot), "7"),
				machineConfig("98-master-http01-proxyd-config", "master",
					"storage: {files: [{path: /etc/http01-proxyd/config.yaml}]}")),
			[]string{"policy-entries-reboot"},
			"for /etc/http01-proxyd/config.yaml",
		},
		"other actions": {
			healthy(configuration(full, withEntry(without(t, full, directory),
				"    - {path: /etc/http01-proxyd, actions: [{type: Restart, restart: {serviceName: a.service}}]}\n"), "7")),
			[]string{"policy-entries-differ"},
			"for " + directory,
		},
		"a rendered unit is new": {
			healthy(live, machineConfig("98-master-http01-proxyd", "master",
				"systemd: {units: [{name: http01-proxyd-install.service}, {name: http01-proxyd-new.service}]}")),
			[]string{"policy-entries-missing"},
			"http01-proxyd-new.service",
		},
		"a downgrade removes a unit": {
			healthy(configuration(full+newUnit, full+newUnit, "7"), string(renderedPolicy),
				machineConfig("98-master-http01-proxyd", "master",
					"systemd: {units: [{name: http01-proxyd-install.service}, {name: http01-proxyd-new.service}]}")),
			[]string{"policy-drops-entries"},
			"no entry for http01-proxyd-new.service, but",
		},
		"another owner's content under our name": {
			healthy(live, string(rendered), string(renderedPolicy),
				machineConfig("98-master-http01-proxyd", "master", "storage: {files: [{path: /etc/motd}]}")),
			[]string{"machineconfig-name-taken"},
			"The MachineConfig 98-master-http01-proxyd has one of our names, but contains /etc/motd, which is not ours.",
		},
		"another owner's fields under our name": {
			healthy(live, string(rendered), string(renderedPolicy),
				strings.Replace(machineConfig(ourConfig, "master", "passwd: {users: [{name: core}]}, "+configFile), "spec: {",
					"spec: {kernelArguments: [nosmt], extensions: [usbguard], kernelType: realtime, fips: true, osImageURL: a, newField: b, ", 1)),
			[]string{"machineconfig-name-taken"},
			"contains extensions, fips, kernelArguments, kernelType, newField, osImageURL, passwd, which is not ours.",
		},
		"no room for our entries": {
			healthy(configuration(others(47), others(47), "7")),
			[]string{"policy-too-many-entries", "policy-entries-missing"},
			"spec.nodeDisruptionPolicy.files of the node disruption policy would contain 51 entries, but",
		},
		"room for our entries": {
			healthy(configuration(others(46), others(46), "7")), []string{"policy-entries-missing"}, "",
		},
		"fifty entries with ours": {
			healthy(configuration(withEntry(full, strings.TrimPrefix(others(46), "    files:\n")), full, "7")), nil, "",
		},
		"paused": {
			[]string{live, pool("paused: true", ""), none, machineConfig("a", "master", chony)},
			[]string{"pool-paused"},
			"oc patch mcp master --type=merge",
		},
		"degraded": {
			[]string{
				live,
				pool("", `{type: NodeDegraded, status: "True", message: "Node m0: unexpected on-disk state."}, {type: Degraded, status: "True", message: ""}`), none, machineConfig("a", "master", chony),
			},
			[]string{"pool-degraded"},
			"is degraded: Node m0: unexpected on-disk state",
		},
		"an image and a stream": {
			[]string{live, streamPool, none, osImage("99-image", "master"), osImage("50-image", "worker")},
			[]string{"os-image-with-stream"},
			"The MachineConfig 99-image sets osImageURL, and the pool master sets osImageStream to rhel-10. ",
		},
		"a stream, and images of other pools": {
			[]string{live, streamPool, none, machineConfig("a", "master", chony), osImage("50-image", "worker")}, nil, "",
		},
		"an image without a stream": {healthy(live, osImage("99-image", "master")), nil, ""},
		"layered, 4.18": {
			healthy(live, osConfig("master"), version("4.18.22")),
			[]string{"pool-layered"},
			"MachineOSConfig layered: OpenShift 4.18.22 drains",
		},
		"layered, 4.19": {
			healthy(live, osConfig("master"), version("4.19.1-rc.2")),
			[]string{"pool-layered"},
			"4.19.1-rc.2",
		},
		"layered, 4.20": {healthy(live, osConfig("master"), version("4.20.0")), nil, ""},
		"layered, 5.0":  {healthy(live, osConfig("master"), version("5.0.1")), nil, ""},
		"layered, unknown": {
			healthy(live, osConfig("master")),
			[]string{"pool-layered"},
			"OpenShift before 4.20 (no ClusterVersion was given)",
		},
		"layered workers": {healthy(live, osConfig("worker"), version("4.18.22")), nil, ""},
		"our file elsewhere": {
			healthy(live, machineConfig("99-mine", "master",
				"storage: {files: [{path: /etc/http01-proxyd/config.yaml}, {path: /etc/other}]}")),
			[]string{"machineconfig-overlaps"},
			"99-mine also contains /etc/http01-proxyd/config.yaml: ",
		},
		"our file elsewhere, later": {
			healthy(live, machineConfig("99-mine", "master", configFile), machineConfig(ourConfig, "master", configFile)),
			[]string{"machineconfig-overlaps"},
			"99-mine also contains /etc/http01-proxyd/config.yaml: 99-mine takes precedence",
		},
		"our file elsewhere, earlier": {
			healthy(live, machineConfig("97-mine", "master", configFile), machineConfig(ourConfig, "master", configFile)),
			[]string{"machineconfig-overlaps"},
			"97-mine also contains /etc/http01-proxyd/config.yaml: " + ourConfig + " takes precedence",
		},
		"a plain file over our compressed one, 4.19": {
			healthy(live, machineConfig("99-mine", "master", configFile), version("4.19.7"),
				machineConfig(ourConfig, "master", compressed)),
			[]string{"machineconfig-overlaps", "machineconfig-compressed"},
			"/etc/http01-proxyd/config.yaml is compressed in " + ourConfig + " and plain text in 99-mine: OpenShift 4.19.7 renders",
		},
		"our plain file over a compressed one": {
			healthy(live, machineConfig("97-mine", "master", compressed), machineConfig(ourConfig, "master", configFile)),
			[]string{"machineconfig-overlaps", "machineconfig-compressed"},
			"/etc/http01-proxyd/config.yaml is compressed in 97-mine and plain text in " + ourConfig +
				": OpenShift before 4.20 (no ClusterVersion was given) renders",
		},
		"a plain file over our compressed one, 4.20": {
			healthy(live, machineConfig("99-mine", "master", configFile), version("4.20.0"),
				machineConfig(ourConfig, "master", compressed)),
			[]string{"machineconfig-overlaps"},
			"",
		},
		"both compressed, 4.19": {
			healthy(live, machineConfig("99-mine", "master", compressed), version("4.19.7"),
				machineConfig(ourConfig, "master", compressed)),
			[]string{"machineconfig-overlaps"},
			"",
		},
		"our unit elsewhere": {
			healthy(live, machineConfig("99-mine", "master",
				"systemd: {units: [{name: http01-proxyd.service, dropins: [{name: a.conf}]}]}")),
			[]string{"machineconfig-overlaps"},
			"http01-proxyd.service",
		},
		"in another pool": {healthy(live, machineConfig("99-worker", "worker",
			"systemd: {units: [{name: http01-proxyd.service}]}")), nil, ""},
		"rendered for a pool": {healthy(live,
			"apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: "+
				"rendered-master-1}\nspec: {config: {systemd: {units: [{name: http01-proxyd.service}]}}}\n"), nil, ""},
		"eleven certificates": {
			healthy(live, apiServer(strings.Repeat("{servingCertificate: {name: a}},", 11))),
			[]string{"named-certificates-too-many"},
			"contains 11 entries, but kube-apiserver-operator accepts at most 10",
		},
		"ten certificates": {healthy(live, apiServer(strings.Repeat("{servingCertificate: {name: a}},", 10))), nil, ""},
		"a name in two certificates": {
			healthy(live, apiServer("{names: [api.ocp.example.com]}, {names: [api.ocp.example.com]}")),
			[]string{"named-certificate-name-twice"},
			"namedCertificates[1] has the name api.ocp.example.com, which spec.servingCerts.namedCertificates[0] has too",
		},
		"Secrets, without the one of an entry": {
			healthy(live, apiServer("{servingCertificate: {name: a}}"),
				"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: other}\n"),
			[]string{"named-certificate-missing"},
			"namedCertificates[0] names the Secret a, which was not found in openshift-config",
		},
		"a Secret without a key": {
			healthy(live, apiServer("{servingCertificate: {name: a}}"),
				"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: openshift-config}\ndata: {tls.crt: ''}\n"),
			[]string{"named-certificate-invalid"},
			"The Secret a of spec.servingCerts.namedCertificates[0] cannot be used: it has no tls.key",
		},
		"a certificate for the nodes' name": {
			healthy(live,
				apiServer("{names: ['*.ocp.example.com', api-internal.ocp.example.com]}, {names: [a.example.com, "+
					"API-INT.ocp.example.com.]}")),
			[]string{"named-certificate-internal-name"},
			"spec.servingCerts.namedCertificates[1].names[1] is API-INT.ocp.example.com., by which",
		},
		"PR 459": {
			healthy(live, machineConfig("98-nftables-crtmgr-http01-dnat", "master", "")),
			[]string{"dnat-machineconfig-present"},
			"98-nftables-crtmgr-http01-dnat",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := examine(t, tt.objects...)
			var ids []string
			var text strings.Builder
			for _, f := range got.Findings {
				ids = append(ids, f.ID)
				text.WriteString(f.Message + "\n" + f.Remediation + "\n" + strings.Join(f.Commands, "\n"))
			}
			if diff := cmp.Diff(tt.ids, ids); diff != "" || !strings.Contains(text.String(), tt.text) ||
				strings.ContainsAny(regexp.MustCompile(`'{.*}'`).ReplaceAllString(text.String(), ""), "{}") {
				t.Errorf("findings (-want +got):\n%swant %q in\n%s", diff, tt.text, text.String())
			}
			want := report.CheckOK
			switch {
			case len(tt.ids) == 1 && (tt.ids[0] == "policy-entries-differ" || strings.HasPrefix(tt.ids[0], "named-certificate")):
				want = report.CheckWarning
			case len(tt.ids) > 0:
				want = report.CheckProblem
			}
			if got.Outcome != want || len(got.NotExamined) > 0 {
				t.Errorf("outcome %s, want %s; not examined: %q", got.Outcome, want, got.NotExamined)
			}
		})
	}
}

// TestNotExamined: an object that was not given is named with the command that prints it.
func TestNotExamined(t *testing.T) {
	t.Parallel()
	full := policyText()
	live, ofPool, config := configuration(full, full, "7"), pool("", ""), machineConfig("00-master", "master", chony)
	const (
		noPolicy  = `the node disruption policy: give the output of "oc get machineconfiguration cluster -o yaml"`
		noPool    = `the pool: give the output of "oc get mcp master -o yaml"`
		noConfigs = `other MachineConfigs: give the output of "oc get mc --selector=machineconfiguration.openshift.io/role=master -o yaml"`
		noLayers  = `MachineOSConfigs: give the output of "oc get machineosconfig -o yaml"`
	)
	asItem := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	}
	list := func(objects ...string) string {
		var text strings.Builder
		text.WriteString("apiVersion: v1\nkind: List\nitems:\n")
		for _, o := range objects {
			text.WriteString(asItem(o))
		}
		return text.String()
	}
	for name, tt := range map[string]struct {
		objects, want []string
	}{
		"nothing but a version": {[]string{version("4.19.1")}, []string{noPolicy, noPool, noLayers, noConfigs}},
		"no policy":             {[]string{ofPool, none, config}, []string{noPolicy}},
		"another pool": {
			[]string{live, strings.Replace(ofPool, "master", "worker", 1), none, config},
			[]string{noPool},
		},
		"only ours": {[]string{live, ofPool, none, machineConfig("98-master-http01-proxyd", "master",
			"systemd: {units: [{name: http01-proxyd-install.service}]}")}, []string{noConfigs}},
		"no MachineOSConfigs": {[]string{live, ofPool, config}, []string{noLayers}},
		// one object, by its name
		"of another pool":        {[]string{live, ofPool, config, osConfig("worker")}, []string{noLayers}},
		"a List of others":       {[]string{list(live, ofPool, config)}, []string{noLayers}},
		"a List of others, 4.18": {[]string{list(live, ofPool, config, version("4.18.22"))}, []string{noLayers}},
		"a List of others, 4.19": {[]string{list(live, ofPool, config, version("4.19.7"))}, []string{noLayers}},
		"a List of others, 4.20": {[]string{list(live, ofPool, config, version("4.20.1"))}, nil},
		"one List for all":       {[]string{list(live, ofPool, config, osConfig("worker"))}, nil},
		"a List of some":         {[]string{list(live, ofPool), config}, []string{noLayers}},
		"the JSON of an empty List": {[]string{
			list(live, ofPool), config,
			`{"apiVersion": "v1", "items": [], "kind": "List", "metadata": {"resourceVersion": ""}}`,
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := examine(t, tt.objects...)
			want := report.CheckIncomplete
			if tt.want == nil {
				tt.want, want = []string{}, report.CheckOK
			}
			if diff := cmp.Diff(tt.want, got.NotExamined); diff != "" || got.Outcome != want {
				t.Errorf("outcome %s; not examined (-want +got):\n%s", got.Outcome, diff)
			}
		})
	}
}

// TestBadInput: each file is rejected with its position and a remediation.
func TestBadInput(t *testing.T) {
	t.Parallel()
	full := policyText()
	live := configuration(full, full, "7")
	const from = `: give the output of "oc get KIND -o yaml", or files of "oc http01 render"`
	deep := strings.Repeat("[", 100000)
	var bomb strings.Builder
	bomb.WriteString("a: &a [" + strings.Repeat("x,", 10) + "]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "%c: &%[1]c [%s]\n", 'b'+i, strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i), 10))
	}
	for name, tt := range map[string]struct {
		objects []string
		want    string
	}{
		"a text": {[]string{"hello"}, "a.yaml: a string, not an object of a cluster"},
		"a wrong kind": {
			[]string{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"},
			`a.yaml: kind "Pod" of "v1" is not accepted here: want APIServer, ClusterVersion, MachineConfig, MachineConfigPool, MachineConfiguration, MachineOSConfig, Secret` + from,
		},
		"not UTF-8":     {[]string{"kind: \xff\n"}, "a.yaml: not valid YAML: invalid leading UTF-8 octet"},
		"too deep":      {[]string{deep}, "a.yaml: not valid YAML: exceeded max depth of 10000"},
		"an alias bomb": {[]string{bomb.String()}, "a.yaml: not valid YAML: document contains excessive aliasing" + from},
		"a wrong type":  {[]string{pool("paused: [1]", "")}, "a.yaml: spec.paused: wrong type: array: "},
		"two clusters":  {[]string{live, live}, "b.yaml: a second MachineConfiguration: give one"},
		"two servers":   {[]string{apiServer(""), apiServer("")}, "b.yaml: a second APIServer: give one"},
		"a wrong list": {
			[]string{strings.Replace(apiServer(""), "[]", "x", 1)},
			"a.yaml: spec.servingCerts.namedCertificates: wrong type: string: ",
		},
		"every file": {[]string{"", "hello"}, "a.yaml: contains no object" + from + "\nb.yaml: a string, not an object of a cluster: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := preflight.Parse(inputs(tt.objects...))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

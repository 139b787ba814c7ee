// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// apiServer is an APIServer as oc prints it, with this text below its spec.
func apiServer(spec string) string {
	return `apiVersion: config.openshift.io/v1
kind: APIServer
metadata:
  annotations:
    release.openshift.io/create-only: "true"
  managedFields:
  - fieldsV1:
      f:spec:
        .: {}
        f:audit: {}
  name: cluster
spec:
  audit:
    profile: Default
` + spec
}

// Line 15 is the first below the spec's audit.
const (
	defaultMode = "  http01ChallengeProxy: {mode: DefaultDeployment}\n"
	customMode  = "  http01ChallengeProxy:\n    mode: CustomDeployment\n    customDeployment:\n      internalPort: 9888\n"
	disabled    = "  http01ChallengeProxy: {mode: \"\"}\n"
)

// infrastructure is an Infrastructure of a platform, with this text below its section.
func infrastructure(platform, section, text string) string {
	return `apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata:
  name: cluster
spec:
  platformSpec: {type: ` + platform + `}
status:
  controlPlaneTopology: HighlyAvailable
  platform: ` + platform + `
  platformStatus:
    type: ` + platform + `
    ` + section + `: {` + text + `}
`
}

// Line 12 is the section.
const (
	oneFamily = "apiServerInternalIPs: [192.0.2.5], ingressIPs: [192.0.2.6]"
	twoFamily = "apiServerInternalIPs: ['2001:db8::5', 192.0.2.5], ingressIPs: [192.0.2.6, '2001:db8::6'], " +
		"loadBalancer: {type: OpenShiftManagedDefault}"
)

// asList is the output of "oc get" for several objects.
func asList(objects ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nitems:\n")
	for _, o := range objects {
		mark := "- "
		for line := range strings.Lines(o) {
			b.WriteString(mark + line)
			mark = "  "
		}
	}
	return b.String() + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
}

func clusterOf(apiServer, infrastructure string) *machineconfig.ClusterObjects {
	var c machineconfig.ClusterObjects
	if apiServer != "" {
		c.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer)}
	}
	if infrastructure != "" {
		c.Infrastructure = &machineconfig.Input{Name: "i.yaml", Text: []byte(infrastructure)}
	}
	return &c
}

// http01Proxy is an HTTP01Proxy as oc prints it, with this spec.
func http01Proxy(spec string) string {
	return `apiVersion: operator.openshift.io/v1alpha1
kind: HTTP01Proxy
metadata:
  name: cluster
spec: ` + spec + `
status:
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: ""}
`
}

// Line 5 is the spec.
const (
	defaultSpec = "{mode: DefaultDeployment}"
	customSpec  = "{mode: CustomDeployment, customDeployment: {internalPort: 9888}}"
)

// proxyOf has the mode in an HTTP01Proxy.
func proxyOf(object, infrastructure string) *machineconfig.ClusterObjects {
	c := clusterOf("", infrastructure)
	c.HTTP01Proxy = &machineconfig.Input{Name: "p.yaml", Text: []byte(object)}
	return c
}

// allowed accepts objects without the settings of the proxy.
func allowed(c *machineconfig.ClusterObjects) *machineconfig.ClusterObjects {
	c.AllowDisabled = true
	return c
}

const emptyList = "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"

// deleted is an object that is being deleted.
func deleted(object string) string {
	return strings.Replace(object, "  name: cluster", "  deletionTimestamp: \"2026-11-23T12:00:00Z\"\n  name: cluster", 1)
}

// TestCluster: the configuration contains the settings of the objects.
func TestCluster(t *testing.T) {
	t.Parallel()
	const off = "mode: \"\"\n"
	const byDefault = "mode: DefaultDeployment\n"
	const custom = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9888\n"
	const one = "vips:\n  api:\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n"
	const two = "vips:\n  api:\n  - 2001:db8::5\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n  - 2001:db8::6\n"
	const noted = "a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const listed = "l.yaml: DefaultDeployment, port 8888; l.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const absent = "a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy"
	const empty = "a.yaml: mode is \"\": the configuration disables the proxy"
	comments, _, _ := strings.Cut(source(t, "butane/config.yaml"), "mode:")
	metal := func(more string) string { return infrastructure("BareMetal", "baremetal", oneFamily+more) }
	list := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(metal(""), apiServer(defaultMode)))}
	const proxied = "p.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	besideAPIServer := proxyOf(http01Proxy(defaultSpec), metal(""))
	besideAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(""))}
	ofAll := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(apiServer(""), http01Proxy(defaultSpec), metal("")))}
	typed := strings.NewReplacer("apiVersion: v1", "apiVersion: config.openshift.io/v1", "kind: List",
		"kind: APIServerList")
	asJSON := `{"apiVersion":"config.openshift.io\/v1","kind":"APIServer","metadata":{"name":"cluster","annotations":{"a":"\ud83d\ude00 \ud83d\u00e9"}},` +
		`"spec":{"http01ChallengeProxy":{"mode":"Default\u0044eployment"}}}`
	for name, tt := range map[string]struct {
		cluster *machineconfig.ClusterObjects
		given   *machineconfig.Input
		config  string
		note    string
	}{
		"the field is absent": {allowed(clusterOf(apiServer(""), metal(""))), nil, comments + off, absent},
		"the field is null": {allowed(clusterOf(apiServer("  http01ChallengeProxy:\n"), metal(""))), nil, comments +
			off, absent},
		"a field of another case": {allowed(clusterOf(apiServer("  HTTP01ChallengeProxy: {mode: DefaultDeployment}\n"),
			metal(""))), nil, comments + off, absent},
		"disabled, on a cloud": {
			clusterOf(apiServer(disabled), infrastructure("AWS", "aws", "region: us-east-1")), nil,
			comments + off, empty,
		},
		"BGP, disabled": {
			clusterOf(apiServer(disabled), metal(", vipManagement: BGP")), nil, comments + off,
			empty,
		},
		"default": {clusterOf(apiServer(defaultMode), metal("")), nil, comments + byDefault + one, noted},
		"keepalived, as the default": {
			clusterOf(apiServer(defaultMode), metal(", vipManagement: Keepalived")), nil,
			comments + byDefault + one, noted,
		},
		"unknown fields of others": {clusterOf(apiServer(defaultMode+"  new: {}\n"), metal(", new: [1]")), nil, comments +
			byDefault + one, noted},
		"as JSON": {clusterOf(asJSON, metal("")), nil, comments + byDefault + one, noted},
		"between empty documents": {
			clusterOf("---\n---\n# none\n---\n"+apiServer(defaultMode)+"---\n...\n", metal("")), nil,
			comments + byDefault + one, noted,
		},
		"a List of one kind": {clusterOf(typed.Replace(asList(apiServer(defaultMode))), metal("")), nil, comments +
			byDefault + one, noted},
		"one List for both": {&machineconfig.ClusterObjects{APIServer: &list, Infrastructure: &list}, nil, comments +
			byDefault + one, listed},
		"one List for either": {
			&machineconfig.ClusterObjects{Infrastructure: &list}, nil, comments + byDefault + one,
			listed,
		},
		"BGP": {
			clusterOf(apiServer(defaultMode), metal(", vipManagement: BGP")), nil,
			comments + byDefault + one + "  management: BGP\n",
			noted + ", announced by BGP",
		},
		"an HTTP01Proxy": {
			proxyOf(http01Proxy("{mode: null, customDeployment: null}"), metal("")), nil,
			comments + byDefault + one, proxied,
		},
		"custom, without a port": {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {}}"),
			metal("")), nil, comments + strings.Replace(custom, "9888", "8888", 1) + one, "p.yaml: CustomDeployment" +
			strings.TrimPrefix(proxied, "p.yaml: DefaultDeployment")},
		"namespaced, with the name default": {proxyOf(strings.Replace(http01Proxy(defaultSpec), "name: cluster",
			"name: default\n  namespace: cert-manager-operator", 1), metal("")), nil, comments + byDefault + one, proxied},
		"beside an APIServer without settings": {besideAPIServer, nil, comments + byDefault + one, proxied},
		"an HTTP01Proxy in the same List": {&machineconfig.ClusterObjects{APIServer: &ofAll}, nil, comments + byDefault +
			one, listed},
		"no HTTP01Proxy, on a cloud": {
			allowed(proxyOf(emptyList, infrastructure("AWS", "aws", ""))), nil,
			comments + off, "p.yaml: contains no HTTP01Proxy: the configuration disables the proxy",
		},
		"an HTTP01Proxy that is being deleted": {
			allowed(proxyOf(deleted(http01Proxy(customSpec)), metal(""))), nil,
			comments + off, "p.yaml: the HTTP01Proxy is being deleted: the configuration disables the proxy",
		},
		"between braces": {
			clusterOf(apiServer(defaultMode), metal("")), given("{vips: {keepalivedConfig: /k}, hosts: []}\n"),
			"{vips: {keepalivedConfig: /k, api: [192.0.2.5], ingress: [192.0.2.6]}, hosts: [],\n  mode: DefaultDeployment}\n",
			noted,
		},
		"vsphere, both families, another port": {
			clusterOf(apiServer(customMode), infrastructure("VSphere", "vsphere", twoFamily)), nil,
			comments + custom + two,
			"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 2001:db8::5 and 192.0.2.5, ingress VIP 192.0.2.6 and " +
				"2001:db8::6",
		},
		"nutanix, one address": {
			clusterOf(apiServer(defaultMode), infrastructure("Nutanix", "nutanix",
				"apiServerInternalIPs: ['2001:db8::5'], ingressIPs: ['2001:db8::5']")), nil,
			comments + byDefault + "vips:\n  api:\n  - 2001:db8::5\n  ingress:\n  - 2001:db8::5\n",
			"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 2001:db8::5, ingress VIP 2001:db8::5",
		},
		"ovirt, one of two shared": {
			clusterOf(apiServer(defaultMode), infrastructure("oVirt", "ovirt",
				"apiServerInternalIPs: [192.0.2.5, '2001:db8::5'], ingressIPs: [192.0.2.6, '2001:db8::5']")), nil,
			comments + byDefault + "vips:\n  api:\n  - 192.0.2.5\n  - 2001:db8::5\n  ingress:\n  - 192.0.2.6\n  - 2001:db8::5\n",
			"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5 and 2001:db8::5, ingress VIP 192.0.2.6 and " +
				"2001:db8::5",
		},
		"beside a configuration": {
			clusterOf(apiServer(customMode), metal("")),
			given("# mine\nhosts: [api.a.example]\nvips:\n  keepalivedConfig: /etc/k.conf # here\n"),
			"# mine\nhosts: [api.a.example]\nvips:\n  keepalivedConfig: /etc/k.conf # here\n  api:\n  - 192.0.2.5\n  " +
				"ingress:\n  - 192.0.2.6\n" +
				"upstream:\n  verifyNames:\n  - '*.apps.a.example'\n" + custom,
			"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{
				Cluster: tt.cluster,
				Config:  tt.given,
			}})[1]
			checkRendered(t, object, tt.config, tt.note)
		})
	}
}

// checkRendered compares the configuration below the line with its sources.
func checkRendered(t *testing.T, object machineconfig.Object, config, note string) {
	t.Helper()
	got := onHost(t, read(t, object).Ignition)["/etc/http01-proxyd/config.yaml -rw-r--r--"]
	head, rest, _ := strings.Cut(got, "\n")
	if !strings.HasPrefix(head, "# With settings of ") ||
		!strings.HasSuffix(head, ".yaml: change these files, and render again.") {
		t.Errorf("first line %q", head)
	}
	if diff := cmp.Diff(config, rest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{note}, object.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// TestClusterRefused: problems of both objects are reported with the path of the field. The tests in
// test/suites/apis compare more settings of the proxy with the API server.
func TestClusterRefused(t *testing.T) {
	t.Parallel()
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	valid := apiServer(defaultMode)
	const field = "a.yaml: spec.http01ChallengeProxy"
	const absence = ", which would disable the proxy: give the object with its mode; to disable the proxy, give " +
		"--allow-disabled"
	const items = " is not accepted here: want APIServer, HTTP01Proxy, Infrastructure"
	const noKeepalived = ": forward port 80 of the API's address to the routers, on the load balancer or machine with " +
		"that address"
	proxy := func(value string) *machineconfig.ClusterObjects {
		return clusterOf(apiServer("  http01ChallengeProxy: "+value+"\n"), metal)
	}
	platform := func(name, section, text string) *machineconfig.ClusterObjects {
		return clusterOf(valid, infrastructure(name, section, text))
	}
	object := http01Proxy(defaultSpec)
	withAPIServer := proxyOf(object, metal)
	withAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(disabled))}
	for name, tt := range map[string]struct {
		cluster *machineconfig.ClusterObjects
		want    string
	}{
		// The file.
		"no YAML": {clusterOf("a: [x", metal), "a.yaml: not valid YAML: line 1: did not find expected"},
		"nothing": {
			clusterOf("# only this\n", metal),
			`a.yaml: contains no object: give the output of "oc get apiserver/cluster infrastructure/cluster -o yaml"`,
		},
		"a text":        {clusterOf("hello", metal), "a.yaml: a string, not an object of a cluster: export the object again"},
		"two documents": {clusterOf(valid+"---\n"+valid, metal), "a.yaml: a second document: keep one object or one List"},
		"a key twice":   {clusterOf(valid+defaultMode, metal), `line 16: key "http01ChallengeProxy" already set in map`},
		"a thousand keys": {
			clusterOf(valid+strings.Repeat("  audit: {}\n", 1000), metal),
			"line 16: key \"audit\" already set in map",
		},
		"twice in JSON": {
			clusterOf(`{"kind": "APIServer", "kind": "APIServer"}`, metal),
			`a.yaml: duplicate field "kind": remove it`,
		},
		"unknown anchor": {clusterOf(apiServer("  x: *secret\n"), metal), "a.yaml: not valid YAML: unknown anchor: give"},
		"another version": {
			clusterOf(strings.Replace(valid, "/v1", "/v2", 1), metal),
			`a.yaml: kind "APIServer" of "config.openshift.io/v2"` + items,
		},
		"another name": {
			clusterOf(strings.Replace(valid, "name: cluster", "name: mine", 1), metal),
			`a.yaml: metadata.name: "mine" is not the APIServer of the cluster`,
		},
		"a List of others": {
			clusterOf("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}\n", metal),
			`a.yaml: items[0]: kind "Secret" of "v1"` + items,
		},
		"an item": {
			clusterOf("apiVersion: v1\nkind: List\nitems:\n- 1\n", metal),
			"a.yaml: items[0]: wrong type: number",
		},
		"two of one kind": {clusterOf(asList(valid, metal), metal+"#\n"), "i.yaml: a second Infrastructure: give one"},
		"one file":        {clusterOf(valid, ""), "a.yaml: contains no Infrastructure: give --infrastructure FILE"},
		"the other file":  {clusterOf("", metal), "i.yaml: contains no APIServer and no HTTP01Proxy: give a file that does"},

		// The mode.
		"no field": {clusterOf(apiServer(""), metal), "a.yaml: spec.http01ChallengeProxy is absent" + absence},
		"a misspelt field": {
			clusterOf(apiServer("  http01ChallengProxy: {mode: DefaultDeployment}\n"), metal),
			"a.yaml: spec.http01ChallengeProxy is absent" + absence,
		},
		"a field of text": {proxy("DefaultDeployment"), field + ": wrong type: string"},
		"a null mode":     {proxy("{mode: null}"), field + ".mode: Required value: write DefaultDeployment"},
		"another mode":    {proxy("{mode: Custom}"), `a.yaml and i.yaml: mode is "Custom": write DefaultDeployment`},
		"a mode in other letters": {
			proxy("{Mode: DefaultDeployment, customDeployment: {port: 1}}"),
			field + `: unknown field "Mode": remove it` + "\n" + field + `: unknown field "customDeployment.port": remove it`,
		},
		"a low port": {
			proxy("{mode: CustomDeployment, customDeployment: {internalPort: 1023}}"),
			"a.yaml and i.yaml: customDeployment.internalPort is 1023: specify a whole number from 1024 to 65535",
		},
		"a port as text": {
			proxy("{mode: CustomDeployment, customDeployment: {internalPort: '8888'}}"),
			field + ".customDeployment.internalPort: wrong type: string",
		},
		"custom, empty": {
			proxy("{mode: CustomDeployment, customDeployment: {}}"),
			field + ".customDeployment.internalPort: Required value",
		},

		// An HTTP01Proxy.
		"beside an APIServer with settings": {
			withAPIServer,
			"p.yaml: the APIServer in a.yaml also has the settings of the proxy: remove spec.http01ChallengeProxy there, or " +
				"this object",
		},
		"of another name": {
			proxyOf(strings.Replace(object, "cluster", "mine", 1), metal),
			`p.yaml: metadata.name: "mine" is not the HTTP01Proxy of the cluster: give the output of "oc get http01proxies,infrastructures -A -o yaml"`,
		},
		"two objects": {
			proxyOf(asList(object, strings.Replace(object, "cluster", "default", 1)), metal),
			"p.yaml: items[1]: a second HTTP01Proxy: give one",
		},
		"an empty List":     {proxyOf(emptyList, metal), "p.yaml: contains no HTTP01Proxy" + absence},
		"a List without it": {proxyOf(asList(metal), ""), "p.yaml: contains no HTTP01Proxy" + absence},
		"being deleted":     {proxyOf(deleted(object), metal), "p.yaml: the HTTP01Proxy is being deleted" + absence},
		"no spec": {
			proxyOf(strings.Replace(object, defaultSpec, "null", 1), metal),
			"p.yaml: spec: Required value: write spec: {mode: DefaultDeployment}",
		},
		"an empty mode": {
			proxyOf(http01Proxy(`{mode: ""}`), metal),
			"p.yaml: spec.mode: is empty: write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object",
		},
		"unknown fields": {
			proxyOf(http01Proxy("{mode: DefaultDeployment, internalPort: 1}"), metal),
			`p.yaml: spec: unknown field "internalPort": remove it`,
		},

		// The platform and its VIPs.
		"AWS": {platform("AWS", "aws", ""), `i.yaml: status: platform "AWS": OpenShift runs no keepalived there` +
			noKeepalived},
		"no status": {
			clusterOf(valid,
				"{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}}\n"),
			"i.yaml: status.platformStatus.type: absent: give the output of",
		},
		"no name": {
			clusterOf(valid, strings.Replace(metal, "type: BareMetal\n", "type: [1]\n", 1)),
			"i.yaml: status.platformStatus.type: wrong type: array",
		},
		"hosted": {
			clusterOf(valid, strings.Replace(metal, "HighlyAvailable", "External", 1)),
			"i.yaml: status: the API server runs outside this cluster, and no host has the API's address" + noKeepalived,
		},
		"user-managed": {
			platform("BareMetal", "baremetal", oneFamily+", loadBalancer: {type: UserManaged}"),
			"i.yaml: status: UserManaged: the VIPs belong to a load balancer of your own, not to a host" + noKeepalived,
		},
		"OSPF": {
			platform("BareMetal", "baremetal", oneFamily+", vipManagement: OSPF"),
			`a.yaml and i.yaml: vips.management is "OSPF"`,
		},
		"no section": {
			platform("VSphere", "external", ""),
			"i.yaml: status: platform VSphere has no API VIP, or no ingress VIP" + noKeepalived,
		},
		"no VIPs": {
			platform("VSphere", "vsphere", "apiServerInternalIPs: [], ingressIPs: null"),
			"i.yaml: status: platform VSphere has no API VIP, or no ingress VIP" + noKeepalived,
		},
		"a VIP of text": {
			platform("BareMetal", "baremetal", "apiServerInternalIPs: x, ingressIPs: [192.0.2.6]"),
			"i.yaml: status.platformStatus.baremetal.apiServerInternalIPs: wrong type: string",
		},
		"no address": {
			platform("BareMetal", "baremetal", "apiServerInternalIPs: [api.example], ingressIPs: [192.0.2.6]"),
			`a.yaml and i.yaml: "api.example" in vips.api is not a virtual IP`,
		},
		"what is no VIP": {
			platform("BareMetal", "baremetal", "apiServerInternalIPs: [192.0.2.5], ingressIPs: ['::1']"),
			`a.yaml and i.yaml: "::1" in vips.ingress is not a virtual IP`,
		},

		"both objects": {
			clusterOf(apiServer(""), infrastructure("VSphere", "external", "x: 1")),
			"a.yaml: spec.http01ChallengeProxy is absent" + absence + " (ALLOW_DISABLED=1 of make)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{Cluster: tt.cluster}, tt.want)
		})
	}
}

// refused requires that a rendering fails with this text.
func refused(t *testing.T, site machineconfig.Site, want string) {
	t.Helper()
	got := rejection(t, sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: site})
	if !strings.Contains(got, want) || len(got) > 2<<10 {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestClusterConflictsWithConfiguration: a configuration must not set the values of the
// objects, and the result is validated as a whole.
func TestClusterConflictsWithConfiguration(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ mode, config, want string }{
		"everything": {
			defaultMode,
			"mode: CustomDeployment\ncustomDeployment: {internalPort: 9999}\nvips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n",
			"my.yaml:1:7: mode is also set by a.yaml: remove one of the two\n" +
				"my.yaml:3:13: vips.api is also set by i.yaml: remove one of the two\n" +
				"my.yaml:3:35: vips.ingress is also set by i.yaml: remove one of the two",
		},
		"an empty mode": {defaultMode, "mode: ''\n", "my.yaml:1:7: mode is also set by a.yaml: remove one of the two"},
		"the same port": {
			customMode, "metrics: {listenAddress: ':9888'}\n",
			"a.yaml and i.yaml and my.yaml: metrics.listenAddress uses the proxy's port 9888",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{
				Cluster: clusterOf(apiServer(tt.mode), infrastructure("BareMetal", "baremetal", oneFamily)),
				Config:  given(tt.config),
			}, tt.want)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
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
	twoFamily = "apiServerInternalIPs: ['2001:db8::5', 192.0.2.5], ingressIPs: [192.0.2.6, '2001:db8::6'], loadBalancer: {type: OpenShiftManagedDefault}"
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

// TestCluster: the configuration contains the settings of the objects.
func TestCluster(t *testing.T) {
	t.Parallel()
	const byDoor, byStatus = " # from the APIServer cluster, spec.http01ChallengeProxy", " # from the Infrastructure cluster, status.platformStatus\n"
	const off = "mode: \"\"" + byDoor + "\n"
	const absent = "mode: \"\"" + byDoor + ", which is absent\n"
	const byDefault = "mode: DefaultDeployment" + byDoor + "\n"
	const custom = "mode: CustomDeployment" + byDoor + "\ncustomDeployment:\n  internalPort: 9888" + byDoor + "\n"
	const one = "vips:\n  api: [\"192.0.2.5\"]" + byStatus + "  ingress: [\"192.0.2.6\"]" + byStatus
	const two = "vips:\n  api: [\"2001:db8::5\", \"192.0.2.5\"]" + byStatus + "  ingress: [\"192.0.2.6\", \"2001:db8::6\"]" + byStatus
	const noted = "a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const listed = "l.yaml: DefaultDeployment, port 8888; API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	head, _, _ := strings.Cut(source(t, "butane/config.yaml"), "mode:")
	list := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(infrastructure("BareMetal", "baremetal", oneFamily), apiServer(defaultMode)))}
	typed := strings.NewReplacer("apiVersion: v1", "apiVersion: config.openshift.io/v1", "kind: List", "kind: APIServerList")
	for name, tt := range map[string]struct {
		cluster         *machineconfig.ClusterObjects
		given           *machineconfig.Input
		config          string
		notes, warnings []string
	}{
		"the field is absent": {
			allowed(clusterOf(apiServer(""), infrastructure("BareMetal", "baremetal", oneFamily))), nil,
			head + absent,
			[]string{"a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy"},
			nil,
		},
		"the field is null": {
			allowed(clusterOf(apiServer("  http01ChallengeProxy:\n"), infrastructure("BareMetal", "baremetal", oneFamily))), nil,
			head + absent,
			[]string{"a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy"},
			nil,
		},
		"a port as JSON may have it": {
			clusterOf(apiServer("  http01ChallengeProxy: {mode: CustomDeployment, customDeployment: {internalPort: 9888.0}}\n"), infrastructure("BareMetal", "baremetal", oneFamily)), nil,
			head + custom + one,
			[]string{strings.Replace(noted, "DefaultDeployment, port 8888", "CustomDeployment, port 9888", 1)},
			nil,
		},
		"disabled, on a cloud": {
			clusterOf(apiServer(disabled), infrastructure("AWS", "aws", "region: us-east-1")), nil,
			head + off,
			[]string{"a.yaml: spec.http01ChallengeProxy.mode is \"\": the configuration disables the proxy"},
			nil,
		},
		"default": {clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily)), nil, head + byDefault + one, []string{noted}, nil},
		"beside what is between braces": {
			clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily)),
			&machineconfig.Input{Name: "c.yaml", Text: []byte("vips: {keepalivedConfig: /k}\n")},
			"vips: {keepalivedConfig: /k, api: [\"192.0.2.5\"], ingress: [\"192.0.2.6\"]}\nmode: DefaultDeployment" + byDoor + "\n",
			[]string{noted},
			nil,
		},
		"between braces": {
			clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily)),
			&machineconfig.Input{Name: "c.yaml", Text: []byte("{vips: {}, hosts: []}\n")},
			"{vips: {api: [\"192.0.2.5\"], ingress: [\"192.0.2.6\"]}, hosts: [], mode: DefaultDeployment}\n",
			[]string{noted},
			nil,
		},
		"openstack, deprecated": {clusterOf(apiServer(defaultMode), infrastructure("OpenStack", "openstack", "apiServerInternalIP: 192.0.2.5, ingressIP: 192.0.2.6, ingressIPs: []")), nil, head + byDefault + one, []string{noted}, nil},
		"vsphere, both families, another port": {
			clusterOf(apiServer(customMode), infrastructure("VSphere", "vsphere", twoFamily)), nil,
			head + custom + two,
			[]string{"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 2001:db8::5 and 192.0.2.5, ingress VIP 192.0.2.6 and 2001:db8::6"},
			nil,
		},
		"BGP": {
			clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: BGP")), nil,
			head + byDefault + strings.Replace(one, "vips:\n", "vips:\n  management: BGP"+byStatus, 1),
			[]string{noted + ", announced by BGP"},
			nil,
		},
		"BGP, disabled": {
			clusterOf(apiServer(disabled), infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: BGP")), nil,
			head + off,
			[]string{"a.yaml: spec.http01ChallengeProxy.mode is \"\": the configuration disables the proxy"},
			nil,
		},
		"keepalived, as the default": {
			clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: Keepalived")), nil,
			head + byDefault + one,
			[]string{noted},
			nil,
		},
		"nutanix, one address": {
			clusterOf(apiServer(defaultMode), infrastructure("Nutanix", "nutanix", "apiServerInternalIPs: ['2001:db8::5'], ingressIPs: ['2001:db8::5']")), nil,
			head + byDefault + "vips:\n  api: [\"2001:db8::5\"]" + byStatus + "  ingress: [\"2001:db8::5\"]" + byStatus,
			[]string{
				"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 2001:db8::5, ingress VIP 2001:db8::5",
				"i.yaml: API and ingress share 2001:db8::5, where the routers already use port 80: hosts report NotRequired",
			},
			nil,
		},
		"ovirt, one of two shared": {
			clusterOf(apiServer(defaultMode), infrastructure("oVirt", "ovirt", "apiServerInternalIPs: [192.0.2.5, '2001:db8::5'], ingressIPs: [192.0.2.6, '2001:db8::5']")), nil,
			head + byDefault + "vips:\n  api: [\"192.0.2.5\", \"2001:db8::5\"]" + byStatus + "  ingress: [\"192.0.2.6\", \"2001:db8::5\"]" + byStatus,
			[]string{
				"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5 and 2001:db8::5, ingress VIP 192.0.2.6 and 2001:db8::5",
				"i.yaml: API and ingress share 2001:db8::5, where the routers already use port 80: hosts do not redirect it",
			},
			nil,
		},
		"one List for both": {&machineconfig.ClusterObjects{APIServer: &list, Infrastructure: &list}, nil, head + byDefault + one, []string{listed}, nil},
		"one List for either": {
			&machineconfig.ClusterObjects{Infrastructure: &list}, nil, head + byDefault + one,
			[]string{listed},
			nil,
		},
		"a List of one kind": {clusterOf(typed.Replace(asList(apiServer(defaultMode))), infrastructure("BareMetal", "baremetal", oneFamily)), nil, head + byDefault + one, []string{noted}, nil},
		"as JSON": {
			clusterOf(`{"apiVersion":"config.openshift.io/v1","kind":"APIServer","metadata":{"name":"cluster"},"spec":{"http01ChallengeProxy":{"mode":"DefaultDeployment"}}}`, infrastructure("BareMetal", "baremetal", oneFamily)), nil,
			head + byDefault + one,
			[]string{noted},
			nil,
		},
		"as JSON, whose writer has ASCII alone": {
			clusterOf(`{"apiVersion":"config.openshift.io\/v1","kind":"APIServer","metadata":{"name":"cluster","annotations":{"a":"\ud83d\ude00 \ud83d \ud83dx\\ud83d\u00e9"}},"spec":{"http01ChallengeProxy":{"mode":"Default\u0044eployment"}}}`, infrastructure("BareMetal", "baremetal", oneFamily)), nil,
			head + byDefault + one,
			[]string{noted},
			nil,
		},
		"between empty documents": {clusterOf("---\n---\n# none\n---\n"+apiServer(defaultMode)+"---\n...\n", infrastructure("BareMetal", "baremetal", oneFamily)), nil, head + byDefault + one, []string{noted}, nil},
		"unknown fields": {
			clusterOf(strings.Replace(apiServer("  http01ChallengeProxy:\n    mode: DefaultDeployment\n    modes: x\n"), "kind:", "specs: {}\nkind:", 1), infrastructure("BareMetal", "baremetal", oneFamily+", new: field")), nil,
			head + byDefault + one,
			[]string{noted},
			[]string{
				`a.yaml:2:1: unknown field "specs": did you mean spec?`, `a.yaml:18:5: unknown field "spec.http01ChallengeProxy.modes": did you mean mode?`,
				`i.yaml:12:77: unknown field "status.platformStatus.baremetal.new"`,
			},
		},
		"a field of another case": {
			allowed(clusterOf(apiServer("  HTTP01ChallengeProxy: {mode: DefaultDeployment}\n"), infrastructure("BareMetal", "baremetal", oneFamily))), nil,
			head + absent,
			nil,
			[]string{
				`a.yaml:15:3: unknown field "spec.HTTP01ChallengeProxy": did you mean http01ChallengeProxy?`,
				"a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy; it may be one of the unknown fields that were left out",
			},
		},
		"beside a configuration": {
			clusterOf(apiServer(customMode), infrastructure("BareMetal", "baremetal", oneFamily)),
			given("# mine\nhosts: [api.a.example]\nvips:\n  api: [] # none\n  keepalivedConfig: /etc/k.conf\ncustomDeployment:\n"),
			"# mine\nhosts: [api.a.example]\nvips:\n  api: [\"192.0.2.5\"]" + byStatus + "  keepalivedConfig: /etc/k.conf\n  ingress: [\"192.0.2.6\"]" + byStatus + "customDeployment:\n  internalPort: 9888" + byDoor + "\nupstream:\n  verifyNames: [\"*.apps.a.example\"]\nmode: CustomDeployment" + byDoor + "\n",
			[]string{"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: tt.cluster, Config: tt.given}})[1]
			got := onHost(t, read(t, object).Ignition)
			if diff := cmp.Diff(map[string]string{"/etc/http01-proxyd/config.yaml -rw-r--r--": tt.config}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, object.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, object.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

const (
	getAPIServer      = `: give the output of "oc get apiserver cluster -o yaml"`
	getInfrastructure = `: give the output of "oc get infrastructure cluster -o yaml"`
	atCloud           = `: the API's address belongs to a load balancer of the cloud, not to a host: forward port 80 of that address to the routers, or use DNS-01 for the API's name`
	atOwn             = `: no keepalived runs on the hosts, and there are no VIPs: on a single node the router already listens on the API's address; with several nodes, forward port 80 of your load balancer to the routers`
	noVIPs            = ` cluster without VIPs has a load balancer of your own: forward port 80 of the API's address to the routers there`
	absence           = `, which would disable the proxy: give the object with its mode; to disable the proxy, give --allow-disabled (ALLOW_DISABLED=1 of make)`
	union             = `spec.http01ChallengeProxy: Invalid value: customDeployment is required when mode is CustomDeployment, and forbidden otherwise: `
)

// TestClusterRefused: every problem of both objects is reported, with its position and
// its remediation.
func TestClusterRefused(t *testing.T) {
	t.Parallel()
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	valid := apiServer(defaultMode)
	const modes = `: write DefaultDeployment, CustomDeployment, or "" to disable the proxy`
	const port = `spec.http01ChallengeProxy.customDeployment.internalPort`
	const ports = `: give a whole number from 1024 to 65535`
	field := func(text string) string { return apiServer("  http01ChallengeProxy: " + text + "\n") }
	addresses := func(api, ingress string) string {
		return infrastructure("BareMetal", "baremetal", "apiServerInternalIPs: ["+api+"], ingressIPs: ["+ingress+"]")
	}
	const section = "status.platformStatus.baremetal"
	for name, tt := range map[string]struct {
		api, infrastructure string
		want                []string
	}{
		// The file.
		"no YAML":           {"a: [x", metal, []string{"a.yaml:2:1: not valid YAML: did not find expected ',' or ']'" + getAPIServer}},
		"nothing":           {"# only this\n", metal, []string{"a.yaml: contains no object" + getAPIServer}},
		"a text":            {"hello", metal, []string{"a.yaml:1:1: not an object" + getAPIServer}},
		"two documents":     {valid + "---\n" + valid, metal, []string{`a.yaml:16:1: a second document: keep one object or one List` + getAPIServer}},
		"an anchor":         {apiServer("  x: &x {}\n"), metal, []string{"a.yaml:15:6: anchors, aliases and merge keys are not supported" + getAPIServer}},
		"an unknown anchor": {apiServer("  x: *secret\n"), metal, []string{"a.yaml:15:6: not valid YAML: unknown anchor" + getAPIServer}},
		"a key twice":       {valid + defaultMode, metal, []string{`a.yaml:16:3: duplicate key "http01ChallengeProxy": remove one of the two`}},
		"no UTF-8":          {valid + "# \xff\n", metal, []string{"a.yaml: not valid YAML: not UTF-8" + getAPIServer}},
		"too deep":          {"a: " + strings.Repeat("[", 100000), metal, []string{"a.yaml:1:68: not valid YAML: nested more than 64 levels deep" + getAPIServer}},
		"too long":          {valid + "#" + strings.Repeat("x", machineconfig.MaxObject-len(valid)), metal, []string{"a.yaml: longer than 1048576 bytes" + getAPIServer}},
		"the other kind":    {metal, valid, []string{`a.yaml:2:7: "Infrastructure" of "config.openshift.io/v1" is not an APIServer of config.openshift.io/v1` + getAPIServer, `i.yaml:2:7: "APIServer" of "config.openshift.io/v1" is not an Infrastructure of config.openshift.io/v1` + getInfrastructure}},
		"another version":   {strings.Replace(valid, "/v1", "/v1alpha1", 1), metal, []string{`a.yaml:1:13: "APIServer" of "config.openshift.io/v1alpha1" is not an APIServer of config.openshift.io/v1` + getAPIServer}},
		"no kind":           {"spec: {}\n", metal, []string{`a.yaml:1:1: has no kind and no apiVersion, but must be an APIServer of config.openshift.io/v1` + getAPIServer}},
		"another name":      {strings.Replace(valid, "name: cluster", "name: mine", 1), metal, []string{`a.yaml:11:9: the name is "mine", but a cluster has only the APIServer "cluster"` + getAPIServer}},
		"no name":           {strings.Replace(valid, "  name: cluster\n", "", 1), metal, []string{"a.yaml:4:3: metadata.name: Required value: write metadata: {name: cluster}"}},
		"no metadata":       {"{apiVersion: config.openshift.io/v1, kind: APIServer, spec: {}}", metal, []string{"a.yaml:1:1: metadata.name: Required value: write metadata: {name: cluster}", "a.yaml:1:61: spec.http01ChallengeProxy is absent" + absence}},
		"metadata of text":  {"{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: x, spec: {}}", metal, []string{`a.yaml:1:65: metadata: Invalid value: "string": metadata in body must be of type object: "string": write keys and values`, "a.yaml:1:74: spec.http01ChallengeProxy is absent" + absence}},
		"in a namespace":    {strings.Replace(valid, "name: cluster", "name: cluster\n  namespace: a", 1), metal, []string{"a.yaml:12:14: metadata.namespace: Forbidden: not allowed on this type: delete it: the object is cluster-scoped"}},
		"an empty List":     {"apiVersion: v1\nkind: List\nitems: []\n", metal, []string{"a.yaml: contains no APIServer" + getAPIServer}},
		"a List of others":  {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}\n- 1\n", metal, []string{`a.yaml:4:26: "Secret" of "v1" is not an APIServer or Infrastructure of config.openshift.io/v1, or an HTTP01Proxy of operator.openshift.io/v1alpha1` + getAPIServer, "a.yaml:5:3: not an object" + getAPIServer}},
		"items of no list":  {"apiVersion: v1\nkind: List\nitems: {}\n", metal, []string{"a.yaml:3:8: items is not a list" + getAPIServer}},
		"two of one kind":   {asList(valid, metal), metal, []string{"i.yaml:1:1: a second Infrastructure, after the one at a.yaml:18:3: give one"}},
		"one file for one":  {valid, "", []string{`a.yaml: contains no Infrastructure: give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of "oc get infrastructure cluster -o yaml"`}},
		"one file, other":   {"", metal, []string{`i.yaml: contains no APIServer and no HTTP01Proxy: give --apiserver FILE or --http01proxy FILE (APISERVER=FILE or HTTP01PROXY=FILE of make) too`}},

		// The mode.
		"no field":     {apiServer(""), metal, []string{"a.yaml:13:3: spec.http01ChallengeProxy is absent" + absence}},
		"a null field": {field(""), metal, []string{"a.yaml:13:3: spec.http01ChallengeProxy is absent" + absence}},
		"a misspelt field": {
			apiServer("  http01ChallengProxy: {mode: DefaultDeployment}\n"), metal,
			[]string{"a.yaml:13:3: spec.http01ChallengeProxy is absent" + absence, `a.yaml:15:3: warning: unknown field "spec.http01ChallengProxy": did you mean http01ChallengeProxy?`},
		},
		"no spec":         {"{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: {name: cluster}}\n", metal, []string{"a.yaml:1:1: spec: Required value" + getAPIServer}},
		"a spec of text":  {"apiVersion: config.openshift.io/v1\nkind: APIServer\nmetadata: {name: cluster}\nspec: x\n", metal, []string{`a.yaml:4:7: spec: Invalid value: "string": spec in body must be of type object: "string": write keys and values`}},
		"a field of text": {field("DefaultDeployment"), metal, []string{`a.yaml:15:25: spec.http01ChallengeProxy: Invalid value: "string": spec.http01ChallengeProxy in body must be of type object: "string": write keys and values`}},
		"a null mode":     {field("{mode: null}"), metal, []string{"a.yaml:15:25: spec.http01ChallengeProxy.mode: Required value" + modes}},
		"no mode":         {field("{}"), metal, []string{"a.yaml:15:25: spec.http01ChallengeProxy.mode: Required value" + modes}},
		"another mode":    {field("{mode: Custom}"), metal, []string{`a.yaml:15:32: spec.http01ChallengeProxy.mode: Unsupported value: "Custom": supported values: "DefaultDeployment", "CustomDeployment", ""` + modes}},
		"a mode in other letters": {
			field("{Mode: DefaultDeployment}"), metal,
			[]string{"a.yaml:15:25: spec.http01ChallengeProxy.mode: Required value" + modes, `a.yaml:15:26: warning: unknown field "spec.http01ChallengeProxy.Mode": did you mean mode?`},
		},
		"a mode of truth":     {field("{mode: true}"), metal, []string{`a.yaml:15:32: spec.http01ChallengeProxy.mode: Invalid value: "boolean": spec.http01ChallengeProxy.mode in body must be of type string: "boolean"` + modes}},
		"custom, no port":     {field("{mode: CustomDeployment}"), metal, []string{"a.yaml:15:25: " + union + "add customDeployment: {internalPort: 8888}"}},
		"default and a port":  {field("{mode: DefaultDeployment, customDeployment: {internalPort: 8888}}"), metal, []string{"a.yaml:15:69: " + union + "delete customDeployment, or set mode: CustomDeployment"}},
		"disabled and a port": {field("{mode: '', customDeployment: {internalPort: 8888}}"), metal, []string{"a.yaml:15:54: " + union + "delete customDeployment, or set mode: CustomDeployment"}},
		"custom, empty":       {field("{mode: CustomDeployment, customDeployment: {}}"), metal, []string{"a.yaml:15:68: " + port + ": Required value" + ports}},
		"custom, a list":      {field("{mode: CustomDeployment, customDeployment: []}"), metal, []string{`a.yaml:15:68: spec.http01ChallengeProxy.customDeployment: Invalid value: "array": spec.http01ChallengeProxy.customDeployment in body must be of type object: "array": write keys and values`}},
		"a low port":          {field("{mode: CustomDeployment, customDeployment: {internalPort: 1023}}"), metal, []string{"a.yaml:15:83: " + port + ": Invalid value: 1023: " + port + " in body should be greater than or equal to 1024" + ports}},
		"a high port":         {field("{mode: CustomDeployment, customDeployment: {internalPort: 65536}}"), metal, []string{"a.yaml:15:83: " + port + ": Invalid value: 65536: " + port + " in body should be less than or equal to 65535" + ports}},
		"a huge port":         {field("{mode: CustomDeployment, customDeployment: {internalPort: 99999999999999999999}}"), metal, []string{"a.yaml:15:83: " + port + ": Invalid value: 100000000000000000000: " + port + " in body should be less than or equal to 65535" + ports}},
		"a port far below":    {field("{mode: CustomDeployment, customDeployment: {internalPort: -1e300}}"), metal, []string{"a.yaml:15:83: " + port + ": Invalid value: -100000000000000005250476025520442024870: " + port + " in body should be greater than or equal to 1024" + ports}},
		"a port as text":      {field("{mode: CustomDeployment, customDeployment: {internalPort: '8888'}}"), metal, []string{`a.yaml:15:83: ` + port + `: Invalid value: "string": ` + port + ` in body must be of type integer: "string"` + ports}},
		"a broken port":       {field("{mode: CustomDeployment, customDeployment: {internalPort: 8888.5}}"), metal, []string{`a.yaml:15:83: ` + port + `: Invalid value: "number": ` + port + ` in body must be of type integer: "number"` + ports}},

		// The platform.
		"AWS":          {valid, infrastructure("AWS", "aws", ""), []string{"i.yaml:11:11: platform AWS" + atCloud}},
		"Azure":        {valid, infrastructure("Azure", "azure", ""), []string{"i.yaml:11:11: platform Azure" + atCloud}},
		"GCP":          {valid, infrastructure("GCP", "gcp", ""), []string{"i.yaml:11:11: platform GCP" + atCloud}},
		"IBMCloud":     {valid, infrastructure("IBMCloud", "ibmcloud", ""), []string{"i.yaml:11:11: platform IBMCloud" + atCloud}},
		"PowerVS":      {valid, infrastructure("PowerVS", "powervs", ""), []string{"i.yaml:11:11: platform PowerVS" + atCloud}},
		"AlibabaCloud": {valid, infrastructure("AlibabaCloud", "alibabaCloud", ""), []string{"i.yaml:11:11: platform AlibabaCloud" + atCloud}},
		"None":         {valid, infrastructure("None", "external", ""), []string{"i.yaml:11:11: platform None" + atOwn}},
		"External":     {valid, infrastructure("External", "external", ""), []string{"i.yaml:11:11: platform External" + atOwn}},
		"Libvirt":      {valid, infrastructure("Libvirt", "external", ""), []string{"i.yaml:11:11: platform Libvirt: no keepalived runs on the hosts: forward port 80 of the API's address to the routers, on the machine with that address"}},
		"EquinixMetal": {valid, infrastructure("EquinixMetal", "equinixMetal", ""), []string{"i.yaml:11:11: platform EquinixMetal: no keepalived runs on the hosts: forward port 80 of the API's address to the routers, on the machine with that address"}},
		"KubeVirt":     {valid, infrastructure("KubeVirt", "kubevirt", ""), []string{"i.yaml:11:11: platform KubeVirt: no keepalived runs on the hosts: the API's address belongs to the infrastructure cluster: forward port 80 of that address to the routers, or use DNS-01 for the API's name"}},
		"unknown":      {valid, infrastructure("Moon", "external", ""), []string{`i.yaml:11:11: platform "Moon" is not known to this release: supported platforms are BareMetal, Nutanix, OpenStack, VSphere, oVirt; if its hosts run keepalived, render without objects of the cluster, and the hosts read keepalived.conf`}},
		"no status":    {valid, "{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}}\n", []string{"i.yaml:1:1: status.platformStatus is absent" + getInfrastructure + ": the manifest of the installer has no status yet"}},
		"a status of text": {
			valid, "apiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\nstatus: {platformStatus: x}\n", []string{"i.yaml:4:26: status.platformStatus is not a mapping" + getInfrastructure},
		},
		"no type": {valid, "apiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\nstatus: {platformStatus: {}}\n", []string{"i.yaml:4:26: status.platformStatus.type is absent" + getInfrastructure}},
		"hosted": {
			valid, strings.Replace(metal, "HighlyAvailable", "External", 1),
			[]string{"i.yaml:8:25: status.controlPlaneTopology is External: the API server runs outside this cluster, and no host has the API's address: forward port 80 of the API's address to the routers, on the machine with that address, or use DNS-01 for the API's name"},
		},
		"user-managed": {
			valid, infrastructure("BareMetal", "baremetal", oneFamily+", loadBalancer: {type: UserManaged}"),
			[]string{"i.yaml:12:98: " + section + ".loadBalancer.type is UserManaged: the VIPs belong to a load balancer of your own, not to a host: forward port 80 of the API's address to the routers on that load balancer"},
		},
		"BGP and user-managed": {
			valid, infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: BGP, loadBalancer: {type: UserManaged}"),
			[]string{"i.yaml:12:118: " + section + ".loadBalancer.type is UserManaged: the VIPs belong to a load balancer of your own, not to a host: forward port 80 of the API's address to the routers on that load balancer"},
		},
		"managed by whom": {
			valid, infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: OSPF"),
			[]string{`i.yaml:12:92: ` + section + `.vipManagement has the value "OSPF", which this release does not support: use a release that supports it, or render without objects of the cluster, and the hosts read keepalived.conf`},
		},

		// The VIPs.
		"no section":          {valid, infrastructure("VSphere", "external", ""), []string{"i.yaml:11:11: status.platformStatus.vsphere is absent: there are no VIPs: a VSphere" + noVIPs}},
		"no VIPs":             {valid, infrastructure("VSphere", "vsphere", "apiServerInternalIPs: [], ingressIPs: null"), []string{"i.yaml:12:14: status.platformStatus.vsphere has no API VIP: a VSphere" + noVIPs, "i.yaml:12:14: status.platformStatus.vsphere has no ingress VIP: a VSphere" + noVIPs}},
		"a VIP of text":       {valid, infrastructure("BareMetal", "baremetal", "apiServerInternalIPs: x, ingressIPs: [192.0.2.6]"), []string{"i.yaml:12:39: " + section + ".apiServerInternalIPs is no list" + getInfrastructure}},
		"no address":          {valid, addresses("api.example", "192.0.2.6"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "api.example" is not an address: give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5`}},
		"a number":            {valid, addresses("1", "192.0.2.6"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "" is not an address: give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5`}},
		"a mask":              {valid, addresses("192.0.2.5/24", "192.0.2.6"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "192.0.2.5/24" has a mask: remove the mask`}},
		"a zone":              {valid, addresses("'fe80::1%eth0'", "'2001:db8::6'"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "fe80::1%eth0" has an IPv6 zone: give the address without its zone; a virtual IP is not link-local`}},
		"IPv4 in IPv6":        {valid, addresses("'::ffff:192.0.2.5'", "192.0.2.6"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "::ffff:192.0.2.5" is an IPv4-mapped IPv6 address: write 192.0.2.5`}},
		"what is no VIP":      {valid, addresses("0.0.0.0", "224.0.0.1, '::1'"), []string{`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "0.0.0.0" cannot be a virtual IP: give the address that clients reach`, `i.yaml:12:63: ` + section + `.ingressIPs[0]: "224.0.0.1" cannot be a virtual IP: give the address that clients reach`, `i.yaml:12:74: ` + section + `.ingressIPs[1]: "::1" cannot be a virtual IP: give the address that clients reach`}},
		"the same twice":      {valid, addresses("192.0.2.5, 192.0.2.5", "192.0.2.6"), []string{`i.yaml:12:51: ` + section + `.apiServerInternalIPs[1]: 192.0.2.5: apiServerInternalIPs must contain at most one IPv4 address and at most one IPv6 address: keep one of each family`}},
		"no pair":             {valid, addresses("192.0.2.5", "'2001:db8::6'"), []string{"i.yaml:12:40: API VIP 192.0.2.5 has no matching IPv4 ingress VIP: configure both VIPs of a family or neither, then export the Infrastructure again", "i.yaml:12:65: ingress VIP 2001:db8::6 has no matching IPv6 API VIP: configure both VIPs of a family or neither, then export the Infrastructure again"}},
		"one family too much": {valid, addresses("192.0.2.5", "192.0.2.6, '2001:db8::6'"), []string{"i.yaml:12:76: ingress VIP 2001:db8::6 has no matching IPv6 API VIP: configure both VIPs of a family or neither, then export the Infrastructure again"}},
		"a broken old one":    {valid, infrastructure("BareMetal", "baremetal", "apiServerInternalIP: x, ingressIP: 192.0.2.6"), []string{`i.yaml:12:38: ` + section + `.apiServerInternalIP: "x" is not an address: give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5`}},

		"all at once": {
			field("{mode: Custom}"), addresses("x", "y"),
			[]string{
				`a.yaml:15:32: spec.http01ChallengeProxy.mode: Unsupported value: "Custom": supported values: "DefaultDeployment", "CustomDeployment", ""` + modes,
				`i.yaml:12:40: ` + section + `.apiServerInternalIPs[0]: "x" is not an address: give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5`,
				`i.yaml:12:57: ` + section + `.ingressIPs[0]: "y" is not an address: give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{Cluster: clusterOf(tt.api, tt.infrastructure)}, tt.want)
		})
	}
}

// refused renders and compares all problems.
func refused(t *testing.T, site machineconfig.Site, want []string) {
	t.Helper()
	messages := rejection(t, sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: site})
	if diff := cmp.Diff(want, strings.Split(messages, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClusterStrict: unknown fields are errors.
func TestClusterStrict(t *testing.T) {
	t.Parallel()
	c := clusterOf(apiServer("  http01ChallengeProxy: {mode: CustomDeployment, x: 1, customDeployment: {internalPort: 9888, y: 2}}\n  HTTP01ChallengeProxy: {}\n"), infrastructure("BareMetal", "baremetal", oneFamily))
	c.Strict = true
	const remediation = `: remove it, or leave out --strict (STRICT of make) to ignore it`
	refused(t, machineconfig.Site{Cluster: c}, []string{
		`a.yaml:15:50: unknown field "spec.http01ChallengeProxy.x"` + remediation,
		`a.yaml:15:95: unknown field "spec.http01ChallengeProxy.customDeployment.y"` + remediation,
		`a.yaml:16:3: unknown field "spec.HTTP01ChallengeProxy": did you mean http01ChallengeProxy?`,
	})
}

// TestClusterUnknownFields: a misspelt field is reported, and refused with Strict.
func TestClusterUnknownFields(t *testing.T) {
	t.Parallel()
	const absent = "a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy; it may be one of the unknown fields that were left out"
	const inUse = "a.yaml: port 6443 is used by OpenShift's API server: hosts where it listens report PortInUse"
	const status = "status.platformStatus.vsphere"
	vsphere := func(text string) string { return infrastructure("VSphere", "vsphere", oneFamily+text) }
	for name, tt := range map[string]struct {
		apiServer, infrastructure string
		warnings                  []string
	}{
		"a letter is missing": {
			apiServer("  http01ChallengProxy: {mode: DefaultDeployment}\n"), vsphere(""),
			[]string{`a.yaml:15:3: unknown field "spec.http01ChallengProxy": did you mean http01ChallengeProxy?`, absent},
		},
		"nothing like it": {apiServer("  frontDoor: {}\n"), vsphere(""), []string{`a.yaml:15:3: unknown field "spec.frontDoor"`, absent}},
		"in the status":   {apiServer("status: {http01ChallengeProxy: {}}\n"), vsphere(""), []string{`a.yaml:15:10: unknown field "status.http01ChallengeProxy": move it to spec`, absent}},
		"beside the spec": {apiServer("http01ChallengeProxy: {}\n"), vsphere(""), []string{`a.yaml:15:1: unknown field "http01ChallengeProxy": move it to spec`, absent}},
		"its own in spec": {apiServer("  mode: DefaultDeployment\n"), vsphere(""), []string{`a.yaml:15:3: unknown field "spec.mode": move it to spec.http01ChallengeProxy`, absent}},
		"another, beside": {apiServer(defaultMode + "  x: 1\n"), vsphere(""), []string{`a.yaml:16:3: unknown field "spec.x"`}},
		"in a platform": {
			apiServer(defaultMode), vsphere(", loadbalancer: {type: UserManaged}, apiServerInternalIps: ['2001:db8::5'], loadBalancer: {Type: UserManaged}"),
			[]string{
				`i.yaml:12:75: unknown field "` + status + `.loadbalancer": did you mean loadBalancer?`,
				`i.yaml:12:110: unknown field "` + status + `.apiServerInternalIps": did you mean apiServerInternalIPs?`,
				`i.yaml:12:164: unknown field "` + status + `.loadBalancer.Type": did you mean type?`,
			},
		},
		"a port of OpenShift's own": {
			apiServer(strings.Replace(customMode, "9888", "6443", 1)), vsphere(""), []string{inUse},
		},
		"in a status": {
			apiServer(defaultMode), strings.Replace(vsphere(""), "controlPlaneT", "controlplaneT", 1),
			[]string{`i.yaml:8:3: unknown field "status.controlplaneTopology": did you mean controlPlaneTopology?`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := allowed(clusterOf(tt.apiServer, tt.infrastructure))
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: c}})[1]
			if diff := cmp.Diff(tt.warnings, object.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if want := "# Configuration: a.yaml, i.yaml\n"; !strings.Contains(string(object.Text), want) {
				t.Errorf("no %q", want)
			}
			c.Strict = true
			_, err := machineconfig.Render(sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: c}})
			for _, w := range tt.warnings {
				if w != absent && w != inUse && (err == nil || !strings.Contains(err.Error(), w)) {
					t.Errorf("with Strict: %v, want %s", err, w)
				}
			}
		})
	}
}

// TestClusterConflictsWithConfiguration: a configuration must not set the values of the
// objects, and the result is validated as a whole.
func TestClusterConflictsWithConfiguration(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		door, config string
		want         []string
	}{
		"everything": {
			defaultMode, "mode: CustomDeployment\ncustomDeployment: {internalPort: 9999}\nvips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n",
			[]string{
				"my.yaml:1:7: mode is also set by a.yaml: remove one of the two",
				"my.yaml:2:19: customDeployment is also set by a.yaml: remove one of the two",
				"my.yaml:3:13: vips.api is also set by i.yaml: remove one of the two",
				"my.yaml:3:35: vips.ingress is also set by i.yaml: remove one of the two",
			},
		},
		"an empty mode": {defaultMode, "mode: ''\n", []string{"my.yaml:1:7: mode is also set by a.yaml: remove one of the two"}},
		"the same port": {customMode, "metrics: {listenAddress: ':9888'}\n", []string{"cannot edit my.yaml: my.yaml:1:26: metrics.listenAddress uses the proxy's port 9888: specify another port, such as 9645"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{
				Cluster: clusterOf(apiServer(tt.door), infrastructure("BareMetal", "baremetal", oneFamily)),
				Config:  given(tt.config),
			}, tt.want)
		})
	}
}

// TestClusterBounds: a file of the maximal size is accepted. Of a file with a problem
// in each line, the first ones are reported.
func TestClusterBounds(t *testing.T) {
	t.Parallel()
	valid := apiServer(defaultMode)
	long := valid + "#" + strings.Repeat("x", machineconfig.MaxObject-len(valid)-1)
	if len(long) != 1<<20 {
		t.Fatalf("%d bytes", len(long))
	}
	render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: clusterOf(long, infrastructure("BareMetal", "baremetal", oneFamily))}})

	many := valid + strings.Repeat("  audit: {}\n", 1000)
	messages := rejection(t, sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: clusterOf(many, infrastructure("BareMetal", "baremetal", oneFamily))}})
	if strings.Count(messages, "\n") != 50 || !strings.HasSuffix(messages, "\nand 950 more") {
		t.Errorf("got %v", messages)
	}
}

// FuzzCluster: objects are either refused with a position, or give a configuration that
// a host accepts, with their settings.
func FuzzCluster(f *testing.F) {
	metal := infrastructure("BareMetal", "baremetal", twoFamily)
	for _, mode := range []string{"", defaultMode, customMode, disabled} {
		f.Add(apiServer(mode), "", metal, true)
	}
	for _, spec := range []string{"{}", defaultSpec, customSpec, "{mode: CustomDeployment, customDeployment: {}}", "&a {mode: *a}"} {
		f.Add("", http01Proxy(spec), metal, false)
	}
	both := asList(apiServer(customMode), metal)
	f.Add(both, "", "", false)
	f.Add("", asList(http01Proxy(customSpec), metal), "", false)
	f.Add("", emptyList, metal, true)
	f.Add(apiServer(""), strings.Replace(http01Proxy(defaultSpec), "name:", "deletionTimestamp: x\n  name:", 1), metal, true)
	f.Add("a: &a [*a]\n", "a: &a [*a, *a]\nb: &b [*a, *a]\n", both, false)
	f.Add("{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [[], null, 1]}", "", strings.Repeat("- ", 200), false)
	f.Fuzz(func(t *testing.T, api, object, infrastructure string, allow bool) {
		if max(len(api), len(object), len(infrastructure)) > machineconfig.MaxObject+1 || api+object+infrastructure == "" {
			return
		}
		c := clusterOf(api, infrastructure)
		if object != "" {
			c.HTTP01Proxy = proxyOf(object, "").HTTP01Proxy
		}
		c.AllowDisabled = allow
		text, err := machineconfig.ClusterConfig(sources.Files, c)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !slices.ContainsFunc([]string{"a.yaml", "p.yaml", "i.yaml", "and "}, func(begins string) bool { return strings.HasPrefix(line, begins) }) {
					t.Errorf("a line without its place: %q in %q", line, err)
				}
			}
			return
		}
		accepted := must1(config.Parse("x", text))(t)
		if accepted.Enabled() != (len(accepted.VIPs.API) > 0) || accepted.Mode == config.ModeCustom && accepted.InternalPort < 1024 {
			t.Errorf("%+v", accepted)
		}
		if !allow && !accepted.Enabled() && !strings.Contains(api+infrastructure, "mode") {
			t.Errorf("disabled without a mode:\n%s", text)
		}
	})
}

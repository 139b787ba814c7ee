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
	const off = "mode: \"\"\n"
	const byDefault = "mode: DefaultDeployment\n"
	const custom = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9888\n"
	const one = "vips:\n  api:\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n"
	const two = "vips:\n  api:\n  - 2001:db8::5\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n  - 2001:db8::6\n"
	const noted = "a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const listed = "l.yaml: DefaultDeployment, port 8888; API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const absent = "a.yaml: spec.http01ChallengeProxy is absent: the configuration disables the proxy"
	const empty = "a.yaml: spec.http01ChallengeProxy.mode is \"\": the configuration disables the proxy"
	comments, _, _ := strings.Cut(source(t, "butane/config.yaml"), "mode:")
	metal := func(more string) string { return infrastructure("BareMetal", "baremetal", oneFamily+more) }
	list := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(metal(""), apiServer(defaultMode)))}
	typed := strings.NewReplacer("apiVersion: v1", "apiVersion: config.openshift.io/v1", "kind: List", "kind: APIServerList")
	asJSON := `{"apiVersion":"config.openshift.io\/v1","kind":"APIServer","metadata":{"name":"cluster","annotations":{"a":"\ud83d\ude00 \ud83d\u00e9"}},` +
		`"spec":{"http01ChallengeProxy":{"mode":"Default\u0044eployment"}}}`
	for name, tt := range map[string]struct {
		cluster  *machineconfig.ClusterObjects
		given    *machineconfig.Input
		config   string
		notes    []string
		warnings []string
	}{
		"the field is absent":        {allowed(clusterOf(apiServer(""), metal(""))), nil, comments + off, []string{absent}, nil},
		"the field is null":          {allowed(clusterOf(apiServer("  http01ChallengeProxy:\n"), metal(""))), nil, comments + off, []string{absent}, nil},
		"a field of another case":    {allowed(clusterOf(apiServer("  HTTP01ChallengeProxy: {mode: DefaultDeployment}\n"), metal(""))), nil, comments + off, []string{absent}, nil},
		"disabled, on a cloud":       {clusterOf(apiServer(disabled), infrastructure("AWS", "aws", "region: us-east-1")), nil, comments + off, []string{empty}, nil},
		"BGP, disabled":              {clusterOf(apiServer(disabled), metal(", vipManagement: BGP")), nil, comments + off, []string{empty}, nil},
		"default":                    {clusterOf(apiServer(defaultMode), metal("")), nil, comments + byDefault + one, []string{noted}, nil},
		"keepalived, as the default": {clusterOf(apiServer(defaultMode), metal(", vipManagement: Keepalived")), nil, comments + byDefault + one, []string{noted}, nil},
		"unknown fields of others":   {clusterOf(apiServer(defaultMode+"  new: {}\n"), metal(", new: [1]")), nil, comments + byDefault + one, []string{noted}, nil},
		"as JSON":                    {clusterOf(asJSON, metal("")), nil, comments + byDefault + one, []string{noted}, nil},
		"between empty documents":    {clusterOf("---\n---\n# none\n---\n"+apiServer(defaultMode)+"---\n...\n", metal("")), nil, comments + byDefault + one, []string{noted}, nil},
		"a List of one kind":         {clusterOf(typed.Replace(asList(apiServer(defaultMode))), metal("")), nil, comments + byDefault + one, []string{noted}, nil},
		"one List for both":          {&machineconfig.ClusterObjects{APIServer: &list, Infrastructure: &list}, nil, comments + byDefault + one, []string{listed}, nil},
		"one List for either":        {&machineconfig.ClusterObjects{Infrastructure: &list}, nil, comments + byDefault + one, []string{listed}, nil},
		"BGP": {
			clusterOf(apiServer(defaultMode), metal(", vipManagement: BGP")), nil,
			comments + byDefault + one + "  management: BGP\n",
			[]string{noted + ", announced by BGP"},
			nil,
		},
		"between braces": {
			clusterOf(apiServer(defaultMode), metal("")), given("{vips: {keepalivedConfig: /k}, hosts: []}\n"),
			"{vips: {keepalivedConfig: /k, api: [192.0.2.5], ingress: [192.0.2.6]}, hosts: [],\n  mode: DefaultDeployment}\n",
			[]string{noted},
			nil,
		},
		"openstack, deprecated": {
			clusterOf(apiServer(defaultMode), infrastructure("OpenStack", "openstack", "apiServerInternalIP: 192.0.2.5, ingressIP: 192.0.2.6, ingressIPs: []")), nil,
			comments + byDefault + one,
			[]string{noted},
			nil,
		},
		"vsphere, both families, another port": {
			clusterOf(apiServer(customMode), infrastructure("VSphere", "vsphere", twoFamily)), nil,
			comments + custom + two,
			[]string{"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 2001:db8::5 and 192.0.2.5, ingress VIP 192.0.2.6 and 2001:db8::6"},
			nil,
		},
		"nutanix, one address": {
			clusterOf(apiServer(defaultMode), infrastructure("Nutanix", "nutanix", "apiServerInternalIPs: ['2001:db8::5'], ingressIPs: ['2001:db8::5']")), nil,
			comments + byDefault + "vips:\n  api:\n  - 2001:db8::5\n  ingress:\n  - 2001:db8::5\n",
			[]string{
				"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 2001:db8::5, ingress VIP 2001:db8::5",
				"i.yaml: API and ingress share 2001:db8::5, where the routers already use port 80: hosts report NotRequired",
			},
			nil,
		},
		"ovirt, one of two shared": {
			clusterOf(apiServer(defaultMode), infrastructure("oVirt", "ovirt", "apiServerInternalIPs: [192.0.2.5, '2001:db8::5'], ingressIPs: [192.0.2.6, '2001:db8::5']")), nil,
			comments + byDefault + "vips:\n  api:\n  - 192.0.2.5\n  - 2001:db8::5\n  ingress:\n  - 192.0.2.6\n  - 2001:db8::5\n",
			[]string{
				"a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5 and 2001:db8::5, ingress VIP 192.0.2.6 and 2001:db8::5",
				"i.yaml: API and ingress share 2001:db8::5, where the routers already use port 80: hosts do not redirect it",
			},
			nil,
		},
		"beside a configuration": {
			clusterOf(apiServer(customMode), metal("")),
			given("# mine\nhosts: [api.a.example]\nvips:\n  keepalivedConfig: /etc/k.conf # here\n"),
			"# mine\nhosts: [api.a.example]\nvips:\n  keepalivedConfig: /etc/k.conf # here\n  api:\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n" +
				"upstream:\n  verifyNames:\n  - '*.apps.a.example'\n" + custom,
			[]string{"a.yaml: CustomDeployment, port 9888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: tt.cluster, Config: tt.given}})[1]
			checkRendered(t, object, tt.config, tt.notes, tt.warnings)
		})
	}
}

// checkRendered compares the configuration below the line with its sources.
func checkRendered(t *testing.T, object machineconfig.Object, config string, notes, warnings []string) {
	t.Helper()
	got := onHost(t, read(t, object).Ignition)["/etc/http01-proxyd/config.yaml -rw-r--r--"]
	head, rest, _ := strings.Cut(got, "\n")
	if !strings.HasPrefix(head, "# With settings of ") || !strings.HasSuffix(head, ".yaml: change these files, and render again.") {
		t.Errorf("first line %q", head)
	}
	if diff := cmp.Diff(config, rest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(notes, object.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(warnings, object.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

const (
	getObjects = `: give the output of "oc get apiserver/cluster infrastructure/cluster -o yaml"`
	noVIPs     = `: a cluster without VIPs has a load balancer of your own: forward port 80 of the API's address to the routers there`
	absence    = `, which would disable the proxy: give the object with its mode; to disable the proxy, give --allow-disabled (ALLOW_DISABLED=1 of make)`
	proxyField = `spec.http01ChallengeProxy`
	wrongType  = `: export the object again, or correct the file`
	whole      = `: specify a whole number from 1024 to 65535`
	noObject   = `: give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of "oc get infrastructure cluster -o yaml"`
)

// TestClusterRefused: problems of both objects are reported with the path of the field and
// the remediation.
func TestClusterRefused(t *testing.T) {
	t.Parallel()
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	valid := apiServer(defaultMode)
	const modes = `: write DefaultDeployment, CustomDeployment, or "" to disable the proxy`
	const port = "a.yaml: " + proxyField + ".customDeployment.internalPort: "
	const union = "a.yaml: " + proxyField + ": customDeployment is allowed only with mode CustomDeployment, but mode is "
	const section = "i.yaml: status.platformStatus.baremetal: "
	const address = " is not a virtual IP: specify an IPv4 or IPv6 address that clients use, without prefix length and zone, " +
		"such as 192.0.2.5 or 2001:db8::5"
	field := func(text string) string { return apiServer("  http01ChallengeProxy: " + text + "\n") }
	custom := func(port string) string {
		return field("{mode: CustomDeployment, customDeployment: {internalPort: " + port + "}}")
	}
	addresses := func(api, ingress string) string {
		return infrastructure("BareMetal", "baremetal", "apiServerInternalIPs: ["+api+"], ingressIPs: ["+ingress+"]")
	}
	const items = `want APIServer, HTTP01Proxy, Infrastructure` + getObjects
	for name, tt := range map[string]struct {
		api, infrastructure string
		want                []string
	}{
		// The file.
		"no YAML":         {"a: [x", metal, []string{"a.yaml:1: not valid YAML: did not find expected ',' or ']'" + getObjects}},
		"nothing":         {"# only this\n", metal, []string{"a.yaml: contains no object" + getObjects}},
		"a text":          {"hello", metal, []string{"a.yaml: wrong type: string" + wrongType}},
		"two documents":   {valid + "---\n" + valid, metal, []string{"a.yaml: a second document: keep one object or one List" + getObjects}},
		"a key twice":     {valid + defaultMode, metal, []string{`a.yaml:16: not valid YAML: key "http01ChallengeProxy" already set in map` + getObjects}},
		"twice in JSON":   {`{"kind": "APIServer", "kind": "APIServer"}`, metal, []string{`a.yaml: duplicate field "kind": remove it`}},
		"unknown anchor":  {apiServer("  x: *secret\n"), metal, []string{"a.yaml: not valid YAML: unknown anchor" + getObjects}},
		"another version": {strings.Replace(valid, "/v1", "/v2", 1), metal, []string{`a.yaml: kind "APIServer" of "config.openshift.io/v2" is not accepted here: ` + items}},
		"another name":    {strings.Replace(valid, "name: cluster", "name: mine", 1), metal, []string{`a.yaml: metadata.name: "mine", but a cluster has only the APIServer ["cluster"]: export the object of the cluster`}},
		"a List of others": {
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}\n- 1\n", metal,
			[]string{`a.yaml: items[0]: kind "Secret" of "v1" is not accepted here: ` + items, "a.yaml: items[1]: wrong type: number" + wrongType},
		},
		"two of one kind": {asList(valid, metal), metal + "#\n", []string{"i.yaml: a second Infrastructure: give one"}},
		"one file":        {valid, "", []string{`a.yaml: contains no Infrastructure` + noObject}},
		"the other file":  {"", metal, []string{`i.yaml: contains no APIServer and no HTTP01Proxy: give a file that does, with --apiserver or --http01proxy (APISERVER or HTTP01PROXY of make)`}},

		// The mode.
		"no field":         {apiServer(""), metal, []string{"a.yaml: " + proxyField + " is absent" + absence}},
		"a misspelt field": {apiServer("  http01ChallengProxy: {mode: DefaultDeployment}\n"), metal, []string{"a.yaml: " + proxyField + " is absent" + absence}},
		"a field of text":  {field("DefaultDeployment"), metal, []string{"a.yaml: " + proxyField + ": wrong type: string" + wrongType}},
		"a null mode":      {field("{mode: null}"), metal, []string{"a.yaml: " + proxyField + ".mode: Required value" + modes}},
		"another mode":     {field("{mode: Custom}"), metal, []string{"a.yaml: " + proxyField + `: mode is "Custom"` + modes}},
		"a mode in other letters": {
			field("{Mode: DefaultDeployment, customDeployment: {port: 1}}"), metal,
			[]string{"a.yaml: " + proxyField + `: unknown field "Mode": remove it`, "a.yaml: " + proxyField + `: unknown field "customDeployment.port": remove it`},
		},
		"a mode of truth":     {field("{mode: true}"), metal, []string{"a.yaml: " + proxyField + ".mode: wrong type: bool" + wrongType}},
		"custom, no port":     {field("{mode: CustomDeployment}"), metal, []string{"a.yaml: " + proxyField + ": mode CustomDeployment requires customDeployment: add customDeployment: {internalPort: 8888}"}},
		"default and a port":  {field("{mode: DefaultDeployment, customDeployment: {internalPort: 8888}}"), metal, []string{union + `"DefaultDeployment": delete it, or set mode: CustomDeployment`}},
		"disabled and a port": {field("{mode: '', customDeployment: {internalPort: 8888}}"), metal, []string{union + `"": delete it, or set mode: CustomDeployment`}},
		"custom, empty":       {field("{mode: CustomDeployment, customDeployment: {}}"), metal, []string{port + "Required value" + strings.Replace(whole, "specify", "give", 1)}},
		"a low port":          {custom("1023"), metal, []string{"a.yaml: " + proxyField + ": customDeployment.internalPort is 1023" + whole}},
		"a high port":         {custom("65536"), metal, []string{"a.yaml: " + proxyField + ": customDeployment.internalPort is 65536" + whole}},
		"a huge port":         {custom("99999999999999999999"), metal, []string{port + "wrong type: number 100000000000000000000" + wrongType}},
		"a port as text":      {custom("'8888'"), metal, []string{port + "wrong type: string" + wrongType}},

		// The platform.
		"AWS": {valid, infrastructure("AWS", "aws", ""), []string{`i.yaml: status.platformStatus: platform "AWS": ` +
			"OpenShift runs keepalived only on BareMetal, Nutanix, OpenStack, VSphere, oVirt: forward port 80 of the API's " +
			"address to the routers, on the load balancer or machine with that address, or use DNS-01 for the API's name; " +
			"the router of a single node already has that address"}},
		"no status":    {valid, "{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}}\n", []string{`i.yaml: status.platformStatus.type: absent: give the output of "oc get infrastructure cluster -o yaml": the manifest of the installer has no status yet`}},
		"no name":      {valid, strings.Replace(metal, "type: BareMetal\n", "type: [1]\n", 1), []string{"i.yaml: status.platformStatus.type: wrong type: array" + wrongType}},
		"hosted":       {valid, strings.Replace(metal, "HighlyAvailable", "External", 1), []string{"i.yaml: status.controlPlaneTopology: External: the API server runs outside this cluster, and no host has the API's address: forward port 80 of the API's address to the routers, on the machine with that address, or use DNS-01 for the API's name"}},
		"user-managed": {valid, infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: BGP, loadBalancer: {type: UserManaged}"), []string{"i.yaml: status.platformStatus.baremetal.loadBalancer.type: UserManaged: the VIPs belong to a load balancer of your own, not to a host: forward port 80 of the API's address to the routers on that load balancer"}},
		"managed by whom": {
			valid, infrastructure("BareMetal", "baremetal", oneFamily+", vipManagement: OSPF"),
			[]string{`i.yaml: status.platformStatus.baremetal.vipManagement: "OSPF", which this release does not support: use a release that supports it, or render without objects of the cluster, and the hosts read keepalived.conf`},
		},

		// The VIPs.
		"no section":     {valid, infrastructure("VSphere", "external", ""), []string{"i.yaml: status.platformStatus.vsphere: absent: there are no VIPs" + noVIPs}},
		"no VIPs":        {valid, infrastructure("VSphere", "vsphere", "apiServerInternalIPs: [], ingressIPs: null"), []string{"i.yaml: status.platformStatus.vsphere: there is no API VIP, or no ingress VIP" + noVIPs}},
		"a VIP of text":  {valid, infrastructure("BareMetal", "baremetal", "apiServerInternalIPs: x, ingressIPs: [192.0.2.6]"), []string{"i.yaml: status.platformStatus.baremetal.apiServerInternalIPs: wrong type: string" + wrongType}},
		"no address":     {valid, addresses("api.example", "192.0.2.6"), []string{section + `"api.example" in vips.api` + address}},
		"what is no VIP": {valid, addresses("192.0.2.5", "'::1'"), []string{section + `"::1" in vips.ingress is not a virtual IP: specify an IPv4 or IPv6 address that clients use, without prefix length and zone, such as 192.0.2.5 or 2001:db8::5`}},
		"no pair":        {valid, addresses("192.0.2.5", "'2001:db8::6'"), []string{section + "API VIP 192.0.2.5 has no IPv4 ingress VIP: add the ingress VIP of that family to vips.ingress"}},

		"both objects": {
			field("{mode: Custom}"), infrastructure("VSphere", "external", ""),
			[]string{"a.yaml: " + proxyField + `: mode is "Custom"` + modes, "i.yaml: status.platformStatus.vsphere: absent: there are no VIPs" + noVIPs},
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
				"my.yaml:3:13: vips.api is also set by i.yaml: remove one of the two",
				"my.yaml:3:35: vips.ingress is also set by i.yaml: remove one of the two",
			},
		},
		"an empty mode": {defaultMode, "mode: ''\n", []string{"my.yaml:1:7: mode is also set by a.yaml: remove one of the two"}},
		"the same port": {customMode, "metrics: {listenAddress: ':9888'}\n", []string{"my.yaml: metrics.listenAddress uses the proxy's port 9888: specify another port, such as 9645"}},
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

// TestClusterBounds: of a file with a problem in each line, the first ones are reported.
func TestClusterBounds(t *testing.T) {
	t.Parallel()
	many := apiServer(defaultMode) + strings.Repeat("  audit: {}\n", 1000)
	cluster := clusterOf(many, infrastructure("BareMetal", "baremetal", oneFamily))
	messages := rejection(t, sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: cluster}})
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

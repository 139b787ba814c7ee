// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// deleted is an object that is being deleted.
func deleted(object string) string {
	return strings.Replace(object, "  name: cluster", "  deletionTimestamp: \"2026-11-23T12:00:00Z\"\n  name: cluster", 1)
}

// TestHTTP01Proxy: the configuration contains the settings of an HTTP01Proxy, in every
// revision of the proposal.
func TestHTTP01Proxy(t *testing.T) {
	t.Parallel()
	const from, byStatus = " # from the HTTP01Proxy cluster, spec\n", " # from the Infrastructure cluster, status.platformStatus\n"
	const vips = "vips:\n  api: [\"192.0.2.5\"]" + byStatus + "  ingress: [\"192.0.2.6\"]" + byStatus
	const byDefault = "mode: DefaultDeployment" + from + vips
	const custom = "mode: CustomDeployment" + from + "customDeployment:\n  internalPort: 9888" + from + vips
	const notedVIPs = "; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const noted = "p.yaml: DefaultDeployment, port 8888" + notedVIPs
	head, _, _ := strings.Cut(source(t, "butane/config.yaml"), "mode:")
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	namespaced := strings.Replace(http01Proxy(defaultSpec), "name: cluster", "name: default\n  namespace: cert-manager-operator", 1)
	list := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(apiServer(""), http01Proxy(defaultSpec), metal))}
	typed := strings.NewReplacer("apiVersion: v1\n", "apiVersion: operator.openshift.io/v1alpha1\n", "kind: List", "kind: HTTP01ProxyList")
	withAPIServer := proxyOf(http01Proxy(defaultSpec), metal)
	withAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(""))}
	listed := strings.NewReplacer("p.yaml", "l.yaml", "i.yaml: ", "").Replace(noted)
	for name, tt := range map[string]struct {
		cluster         *machineconfig.ClusterObjects
		config          string
		notes, warnings []string
	}{
		"default":                              {proxyOf(http01Proxy(defaultSpec), metal), byDefault, []string{noted}, nil},
		"an empty spec":                        {proxyOf(http01Proxy("{}"), metal), byDefault, []string{noted}, nil},
		"a null mode":                          {proxyOf(http01Proxy("{mode: null, customDeployment: null}"), metal), byDefault, []string{noted}, nil},
		"namespaced, with the name default":    {proxyOf(namespaced, metal), strings.ReplaceAll(byDefault, "HTTP01Proxy cluster", "HTTP01Proxy default"), []string{noted}, nil},
		"custom":                               {proxyOf(http01Proxy(customSpec), metal), custom, []string{"p.yaml: CustomDeployment, port 9888" + notedVIPs}, nil},
		"custom, without a port":               {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {}}"), metal), strings.Replace(custom, "9888", "8888", 1), []string{"p.yaml: CustomDeployment, port 8888" + notedVIPs}, nil},
		"custom, with a null port":             {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {internalPort: }}"), metal), strings.Replace(custom, "9888", "8888", 1), []string{"p.yaml: CustomDeployment, port 8888" + notedVIPs}, nil},
		"beside an APIServer without settings": {withAPIServer, byDefault, []string{noted}, nil},
		"one List for all":                     {&machineconfig.ClusterObjects{HTTP01Proxy: &list, Infrastructure: &list}, byDefault, []string{listed}, nil},
		"one List, given for the APIServer":    {&machineconfig.ClusterObjects{APIServer: &list}, byDefault, []string{listed}, nil},
		"a List of one kind":                   {proxyOf(typed.Replace(asList(http01Proxy(defaultSpec))), metal), byDefault, []string{noted}, nil},
		"an unknown field": {
			proxyOf(http01Proxy("{mode: DefaultDeployment, internalPort: 1, port: 2}"), metal), byDefault,
			[]string{noted},
			[]string{`p.yaml:5:33: unknown field "spec.internalPort": move it to spec.customDeployment`, `p.yaml:5:50: unknown field "spec.port"`},
		},
		"no object, allowed": {
			allowed(proxyOf(emptyList, metal)), "mode: \"\" # from the HTTP01Proxy, which is absent\n",
			[]string{"p.yaml: contains no HTTP01Proxy: the configuration disables the proxy"},
			nil,
		},
		"no object, allowed, on a cloud": {
			allowed(proxyOf(emptyList, infrastructure("AWS", "aws", ""))), "mode: \"\" # from the HTTP01Proxy, which is absent\n",
			[]string{"p.yaml: contains no HTTP01Proxy: the configuration disables the proxy"},
			nil,
		},
		"being deleted, allowed": {
			allowed(proxyOf(deleted(http01Proxy(customSpec)), metal)), "mode: \"\" # from the HTTP01Proxy cluster, which is absent\n",
			[]string{"p.yaml: the HTTP01Proxy is being deleted: the configuration disables the proxy"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: tt.cluster}})[1]
			got := onHost(t, read(t, object).Ignition)
			if diff := cmp.Diff(map[string]string{"/etc/http01-proxyd/config.yaml -rw-r--r--": head + tt.config}, got); diff != "" {
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

// TestHTTP01ProxyRejected: every problem is reported with its position and its
// remediation, and nothing is rendered.
func TestHTTP01ProxyRejected(t *testing.T) {
	t.Parallel()
	const (
		get    = `: give the output of "oc get http01proxies -A -o yaml"`
		modes  = `: write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object`
		ports  = `: give a whole number from 1024 to 65535`
		port   = `spec.customDeployment.internalPort`
		union  = `spec: Invalid value: customDeployment is required when mode is CustomDeployment, and forbidden otherwise: `
		values = `: supported values: "DefaultDeployment", "CustomDeployment"`
		kind   = `HTTP01Proxy of operator.openshift.io/v1alpha1`
	)
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	valid := http01Proxy(defaultSpec)
	head, _, _ := strings.Cut(valid, "spec:")
	bomb := "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
	withAPIServer := proxyOf(valid, metal)
	withAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(disabled))}
	for name, tt := range map[string]struct {
		cluster *machineconfig.ClusterObjects
		want    []string
	}{
		// The file.
		"truncated":         {proxyOf(strings.TrimSuffix(http01Proxy("{mode: Default"), "\nstatus:\n  conditions:\n  - {type: Ready, status: \"True\", reason: Ready, message: \"\"}\n"), metal), []string{"p.yaml:6:1: not valid YAML: did not find expected ',' or '}'" + get}},
		"nothing":           {proxyOf("", metal), []string{"p.yaml: contains no object" + get}},
		"two documents":     {proxyOf(valid+"---\n"+valid, metal), []string{"p.yaml:9:1: a second document: keep one object or one List" + get}},
		"an alias bomb":     {proxyOf(bomb, metal), []string{"p.yaml:1:4: anchors, aliases and merge keys are not supported" + get}},
		"too long":          {proxyOf(valid+"#"+strings.Repeat("x", machineconfig.MaxObject-len(valid)), metal), []string{"p.yaml: longer than 1048576 bytes" + get}},
		"a key twice":       {proxyOf(valid+"spec: {}\n", metal), []string{`p.yaml:9:1: duplicate key "spec": remove one of the two`}},
		"another kind":      {proxyOf(apiServer(defaultMode), metal), []string{`p.yaml:2:7: "APIServer" of "config.openshift.io/v1" is not an ` + kind + get}},
		"another version":   {proxyOf(strings.Replace(valid, "v1alpha1", "v1", 1), metal), []string{`p.yaml:1:13: "HTTP01Proxy" of "operator.openshift.io/v1" is not an ` + kind + get}},
		"two objects":       {proxyOf(asList(valid, strings.Replace(valid, "cluster", "default", 1)), metal), []string{"p.yaml:11:3: a second HTTP01Proxy, after the one at p.yaml:3:3: give one"}},
		"another name":      {proxyOf(strings.Replace(valid, "cluster", "mine", 1), metal), []string{`p.yaml:4:9: the name is "mine", but a cluster has only the HTTP01Proxy "cluster" or "default"` + get}},
		"no Infrastructure": {proxyOf(valid, ""), []string{`p.yaml: contains no Infrastructure: give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of "oc get infrastructure cluster -o yaml"`}},
		"beside an APIServer with settings": {
			withAPIServer, []string{"p.yaml:1:1: the APIServer at a.yaml:1:1 also has the settings of the proxy: remove spec.http01ChallengeProxy there, or this object"},
		},

		// An absent object.
		"an empty List":      {proxyOf(emptyList, metal), []string{"p.yaml: contains no HTTP01Proxy" + absence}},
		"a List without it":  {proxyOf(asList(metal), ""), []string{"p.yaml: contains no HTTP01Proxy" + absence}},
		"being deleted":      {proxyOf(deleted(valid), metal), []string{"p.yaml:4:22: the HTTP01Proxy is being deleted" + absence}},
		"an invalid file":    {allowed(proxyOf("[]", metal)), []string{"p.yaml:1:1: not an object" + get}},
		"no Infrastructure!": {allowed(proxyOf(emptyList, "")), []string{`p.yaml: contains no Infrastructure: give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of "oc get infrastructure cluster -o yaml"`}},

		// The settings.
		"no spec":             {proxyOf(head, metal), []string{"p.yaml:1:1: spec: Required value: write spec: {mode: DefaultDeployment}"}},
		"a spec of text":      {proxyOf(http01Proxy("x"), metal), []string{`p.yaml:5:7: spec: Invalid value: "string": spec in body must be of type object: "string": write keys and values`}},
		"an empty mode":       {proxyOf(http01Proxy(`{mode: ""}`), metal), []string{`p.yaml:5:14: spec.mode: Unsupported value: ""` + values + modes}},
		"another mode":        {proxyOf(http01Proxy("{mode: Disabled}"), metal), []string{`p.yaml:5:14: spec.mode: Unsupported value: "Disabled"` + values + modes}},
		"a mode of truth":     {proxyOf(http01Proxy("{mode: true}"), metal), []string{`p.yaml:5:14: spec.mode: Invalid value: "boolean": spec.mode in body must be of type string: "boolean"` + modes}},
		"custom, no settings": {proxyOf(http01Proxy("{mode: CustomDeployment}"), metal), []string{"p.yaml:5:7: " + union + "add customDeployment: {internalPort: 8888}"}},
		"default, settings":   {proxyOf(http01Proxy("{customDeployment: {internalPort: 9888}}"), metal), []string{"p.yaml:5:26: " + union + "delete customDeployment, or set mode: CustomDeployment"}},
		"a low port":          {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {internalPort: 80}}"), metal), []string{"p.yaml:5:65: " + port + ": Invalid value: 80: " + port + " in body should be greater than or equal to 1024" + ports}},
		"a mode in other letters": {
			proxyOf(http01Proxy("{Mode: CustomDeployment, customDeployment: {}}"), metal),
			[]string{"p.yaml:5:50: " + union + "delete customDeployment, or set mode: CustomDeployment", `p.yaml:5:8: warning: unknown field "spec.Mode": did you mean mode?`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{Cluster: tt.cluster}, tt.want)
		})
	}
}

// TestHTTP01ProxyConflictsWithConfiguration: a configuration must not set the values of
// the object.
func TestHTTP01ProxyConflictsWithConfiguration(t *testing.T) {
	t.Parallel()
	refused(t, machineconfig.Site{
		Cluster: proxyOf(http01Proxy(customSpec), infrastructure("BareMetal", "baremetal", oneFamily)),
		Config:  given("mode: DefaultDeployment\n"),
	}, []string{"my.yaml:1:7: mode is also set by p.yaml: remove one of the two"})
	_, err := machineconfig.ClusterConfig(sources.Files, proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {internalPort: 9888}, x: 1}"), infrastructure("BareMetal", "baremetal", oneFamily)))
	if err != nil {
		t.Errorf("an unknown field without Strict: %v", err)
	}
}

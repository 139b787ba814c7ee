// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

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
	const vips = "vips:\n  api:\n  - 192.0.2.5\n  ingress:\n  - 192.0.2.6\n"
	const byDefault = "mode: DefaultDeployment\n" + vips
	const custom = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9888\n" + vips
	const off = "mode: \"\"\n"
	const notedVIPs = "; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const noted = "p.yaml: DefaultDeployment, port 8888" + notedVIPs
	const none = "p.yaml: contains no HTTP01Proxy: the configuration disables the proxy"
	comments, _, _ := strings.Cut(source(t, "butane/config.yaml"), "mode:")
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	namespaced := strings.Replace(http01Proxy(defaultSpec), "name: cluster", "name: default\n  namespace: cert-manager-operator", 1)
	list := machineconfig.Input{Name: "l.yaml", Text: []byte(asList(apiServer(""), http01Proxy(defaultSpec), metal))}
	withAPIServer := proxyOf(http01Proxy(defaultSpec), metal)
	withAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(""))}
	listed := strings.NewReplacer("p.yaml", "l.yaml", "i.yaml: ", "").Replace(noted)
	noPort := strings.Replace(custom, "customDeployment:\n  internalPort: 9888", "customDeployment:\n  internalPort: 8888", 1)
	for name, tt := range map[string]struct {
		cluster *machineconfig.ClusterObjects
		config  string
		note    string
	}{
		"default":                              {proxyOf(http01Proxy(defaultSpec), metal), byDefault, noted},
		"an empty spec":                        {proxyOf(http01Proxy("{}"), metal), byDefault, noted},
		"a null mode":                          {proxyOf(http01Proxy("{mode: null, customDeployment: null}"), metal), byDefault, noted},
		"namespaced, with the name default":    {proxyOf(namespaced, metal), byDefault, noted},
		"custom":                               {proxyOf(http01Proxy(customSpec), metal), custom, "p.yaml: CustomDeployment, port 9888" + notedVIPs},
		"custom, without a port":               {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {}}"), metal), noPort, "p.yaml: CustomDeployment, port 8888" + notedVIPs},
		"beside an APIServer without settings": {withAPIServer, byDefault, noted},
		"one List for all":                     {&machineconfig.ClusterObjects{HTTP01Proxy: &list, Infrastructure: &list}, byDefault, listed},
		"one List, given for the APIServer":    {&machineconfig.ClusterObjects{APIServer: &list}, byDefault, listed},
		"no object, allowed":                   {allowed(proxyOf(emptyList, metal)), off, none},
		"no object, allowed, on a cloud":       {allowed(proxyOf(emptyList, infrastructure("AWS", "aws", ""))), off, none},
		"being deleted, allowed":               {allowed(proxyOf(deleted(http01Proxy(customSpec)), metal)), off, "p.yaml: the HTTP01Proxy is being deleted: the configuration disables the proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{Cluster: tt.cluster}})[1]
			checkRendered(t, object, comments+tt.config, []string{tt.note}, nil)
		})
	}
}

// TestHTTP01ProxyRejected: problems are reported with the path of the field and the
// remediation, and nothing is rendered.
func TestHTTP01ProxyRejected(t *testing.T) {
	t.Parallel()
	const get = `: give the output of "oc get http01proxies,infrastructures -A -o yaml"`
	const kinds = ` is not accepted here: want APIServer, HTTP01Proxy, Infrastructure` + get
	metal := infrastructure("BareMetal", "baremetal", oneFamily)
	valid := http01Proxy(defaultSpec)
	head, _, _ := strings.Cut(valid, "spec:")
	withAPIServer := proxyOf(valid, metal)
	withAPIServer.APIServer = &machineconfig.Input{Name: "a.yaml", Text: []byte(apiServer(disabled))}
	for name, tt := range map[string]struct {
		cluster *machineconfig.ClusterObjects
		want    []string
	}{
		// The file.
		"another version":   {proxyOf(strings.Replace(valid, "v1alpha1", "v1", 1), metal), []string{`p.yaml: kind "HTTP01Proxy" of "operator.openshift.io/v1"` + kinds}},
		"two objects":       {proxyOf(asList(valid, strings.Replace(valid, "cluster", "default", 1)), metal), []string{"p.yaml: items[1]: a second HTTP01Proxy: give one"}},
		"another name":      {proxyOf(strings.Replace(valid, "cluster", "mine", 1), metal), []string{`p.yaml: metadata.name: "mine", but a cluster has only the HTTP01Proxy ["cluster" "default"]: export the object of the cluster`}},
		"no Infrastructure": {allowed(proxyOf(emptyList, "")), []string{`p.yaml: contains no Infrastructure` + noObject}},
		"beside an APIServer with settings": {
			withAPIServer, []string{"p.yaml: the APIServer in a.yaml also has the settings of the proxy: remove spec.http01ChallengeProxy there, or this object"},
		},

		// An absent object.
		"an empty List":     {proxyOf(emptyList, metal), []string{"p.yaml: contains no HTTP01Proxy" + absence}},
		"a List without it": {proxyOf(asList(metal), ""), []string{"p.yaml: contains no HTTP01Proxy" + absence}},
		"being deleted":     {proxyOf(deleted(valid), metal), []string{"p.yaml: the HTTP01Proxy is being deleted" + absence}},
		"an invalid file":   {allowed(proxyOf("[]", metal)), []string{"p.yaml: wrong type: array" + wrongType}},

		// The settings.
		"no spec":             {proxyOf(head, metal), []string{"p.yaml: spec: Required value: write spec: {mode: DefaultDeployment}"}},
		"a spec of text":      {proxyOf(http01Proxy("x"), metal), []string{`p.yaml: spec: wrong type: string` + wrongType}},
		"an empty mode":       {proxyOf(http01Proxy(`{mode: ""}`), metal), []string{`p.yaml: spec.mode: is empty: write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object`}},
		"another mode":        {proxyOf(http01Proxy("{mode: Disabled}"), metal), []string{`p.yaml: spec: mode is "Disabled": write DefaultDeployment, CustomDeployment, or "" to disable the proxy`}},
		"custom, no settings": {proxyOf(http01Proxy("{mode: CustomDeployment}"), metal), []string{"p.yaml: spec: mode CustomDeployment requires customDeployment: add customDeployment: {internalPort: 8888}"}},
		"default, settings":   {proxyOf(http01Proxy("{customDeployment: {internalPort: 9888}}"), metal), []string{`p.yaml: spec: customDeployment is allowed only with mode CustomDeployment, but mode is "DefaultDeployment": delete it, or set mode: CustomDeployment`}},
		"a low port":          {proxyOf(http01Proxy("{mode: CustomDeployment, customDeployment: {internalPort: 80}}"), metal), []string{"p.yaml: spec: customDeployment.internalPort is 80" + whole}},
		"unknown fields":      {proxyOf(http01Proxy("{mode: DefaultDeployment, internalPort: 1}"), metal), []string{`p.yaml: spec: unknown field "internalPort": remove it`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, machineconfig.Site{Cluster: tt.cluster}, tt.want)
		})
	}
}

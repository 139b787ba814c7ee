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
	listed := strings.NewReplacer("p.yaml", "l.yaml", "i.yaml", "l.yaml").Replace(noted)
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
			checkRendered(t, object, comments+tt.config, tt.note)
		})
	}
}

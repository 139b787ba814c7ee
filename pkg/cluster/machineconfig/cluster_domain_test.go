// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// TestClusterDomain: for routers with TLS, the Infrastructure provides the cluster's
// domain, unless --cluster-domain does.
func TestClusterDomain(t *testing.T) {
	t.Parallel()
	const missing = "the certificate of the ingress must be for the API's name, but routers usually have one for " +
		"*.apps of the cluster's domain: use --cluster-domain (CLUSTER_DOMAIN of make)"
	const modeNote = "a.yaml: DefaultDeployment, port 8888; i.yaml: API VIP 192.0.2.5, ingress VIP 192.0.2.6"
	const usual = "https://api.OCP.example.com:6443"
	bundle := configMap(ca(t, "Lab CA", time.Now().Add(time.Hour)))
	https := given("upstream: {scheme: https}\n")
	for name, tt := range map[string]struct {
		url   string
		site  machineconfig.Site
		names string
		notes []string
	}{
		"CAs":        {usual, machineconfig.Site{TrustedCA: bundle}, "*.apps.ocp.example.com", []string{modeNote}},
		"https":      {usual, machineconfig.Site{Config: https}, "*.apps.ocp.example.com", []string{modeNote}},
		"plain HTTP": {usual, machineconfig.Site{}, "", []string{modeNote}},
		"a flag": {
			usual,
			machineconfig.Site{TrustedCA: bundle, Domain: "other.example"},
			"*.apps.other.example",
			[]string{modeNote},
		},
		"hosts": {
			usual,
			machineconfig.Site{Config: given("hosts: [api.a.example]\nupstream: {scheme: https}\n")},
			"*.apps.a.example",
			[]string{
				"hosts in my.yaml does not contain api.ocp.example.com: challenges for the API's own name get 400", modeNote,
			},
		},
		"names of its own": {
			usual,
			machineconfig.Site{Config: given("upstream: {scheme: https, verifyNames: [router.example]}\n")},
			"router.example",
			[]string{modeNote},
		},
		"another name": {
			"https://ocp.example.com:6443",
			machineconfig.Site{Config: https},
			"",
			[]string{missing, modeNote},
		},
		"no cluster's name": {
			"https://api.apps.ocp.example.com",
			machineconfig.Site{Config: https},
			"",
			[]string{missing, modeNote},
		},
		"no domain": {"https://api.ocp:6443", machineconfig.Site{Config: https}, "", []string{missing, modeNote}},
		"no URL":    {"'https://[::1'", machineconfig.Site{Config: https}, "", []string{missing, modeNote}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := tt.site
			site.Cluster = clusterOf(apiServer(defaultMode), infrastructure("BareMetal", "baremetal", oneFamily)+
				"  apiServerURL: "+tt.url+"\n")
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: site})[1]
			if diff := cmp.Diff(tt.notes, object.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			config := onHost(t, read(t, object).Ignition)["/etc/http01-proxyd/config.yaml -rw-r--r--"]
			if tt.names == "" && strings.Contains(config, "verifyNames") || !strings.Contains(config, tt.names) {
				t.Errorf("it is to have %q:\n%s", tt.names, config)
			}
		})
	}
}

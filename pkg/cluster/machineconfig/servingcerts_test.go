// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// TestServingCertificateWarnings: api-int in the configuration or in the APIServer, and
// more certificates than the operator accepts, are rendered with warnings.
func TestServingCertificateWarnings(t *testing.T) {
	t.Parallel()
	const document = "https://github.com/http01-proxyd/http01-proxyd/blob/main/docs/before-the-switch.md#"
	const internal = "api-int.a.example, by which the nodes reach the API. They trust only the cluster's own CA for it. Remove api-int.a.example from "
	const inHosts = "hosts in my.yaml contains " + internal + "hosts, and from dnsNames of the Certificate. Never use it in spec.servingCerts.namedCertificates of apiserver/cluster. See " + document + "never-use-api-int."
	const isName = " is " + internal + "names, and from dnsNames of the Certificate. See " + document + "never-use-api-int."
	const path = "a.yaml: spec.servingCerts.namedCertificates"
	cluster := func(certificates string) *machineconfig.ClusterObjects {
		return clusterOf(apiServer(defaultMode+"  servingCerts:\n    namedCertificates: "+certificates+"\n"), infrastructure("BareMetal", "baremetal", oneFamily))
	}
	for name, tt := range map[string]struct {
		site machineconfig.Site
		want []string
	}{
		"the API's name":  {machineconfig.Site{Config: given("hosts: [api.a.example]\n"), Cluster: cluster("[{names: [api.a.example], servingCertificate: {name: x}}]")}, nil},
		"hosts":           {machineconfig.Site{Config: given("hosts: [api.a.example, API-INT.a.example]\n")}, []string{inHosts}},
		"an entry's name": {machineconfig.Site{Cluster: cluster("[{servingCertificate: {name: x}}, {names: [api-int.a.example]}]")}, []string{path + "[1].names[0]" + isName}},
		"eleven entries": {
			machineconfig.Site{Cluster: cluster("[" + strings.Repeat("{servingCertificate: {name: x}},", 11) + "]")},
			[]string{path + " has 11 entries, but kube-apiserver-operator accepts at most 10 and keeps the previous certificates. Use one certificate for several names. See " + document + "at-most-ten-named-certificates."},
		},
		"hosts and an entry's name": {
			machineconfig.Site{Config: given("hosts: [api-int.a.example]\n"), Cluster: cluster("[{names: [api-int.a.example]}]")},
			[]string{
				inHosts,
				path + "[0].names[0]" + isName,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: tt.site})[1]
			if diff := cmp.Diff(tt.want, object.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

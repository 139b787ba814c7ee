// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// faultCase is one fault on a healthy MicroShift host.
type faultCase struct {
	name        string
	config      string // configuration of MicroShift besides the subject's name
	edit        func(*host, *servingCertificates)
	router      lab.RouterOptions
	reason      string // reason of the service; NotRequired when empty
	want        []string
	firstTexts  []string // parts of the first finding
	secondTexts []string // parts of the second finding
	text        string   // part of the certificate check's text without findings

	documented bool // the document has the state
	fixed      bool // the commands of the first finding end the fault
}

// TestFaults tests one fault at a time.
func TestFaults(t *testing.T) {
	on := open(t, lab.LinkNIC)
	must(t, on.Internet.SetName(t.Context(), apiName, lab.Pair{V4: on.v4()}))
	node, node6 := on.v4().String(), on.v6().String()
	admins := func(
		issuer string, names, explicit []string, left time.Duration, ignored bool,
	) func(*host, *servingCertificates) {
		return func(h *host, s *servingCertificates) {
			now := time.Now()
			cert, key := issueCertificate(h.t, h.t.TempDir(), issuer, names, now.Add(left-90*day), now.Add(left))
			s.named = append(s.named, namedPair{names: explicit, cert: cert, key: key, ignored: ignored})
			text := fmt.Sprintf("apiServer: {subjectAltNames: [%s], namedCertificates: [{certPath: %s, keyPath: %s", apiName,
				cert, key)
			if len(explicit) > 0 {
				text += ", names: [" + explicit[0] + "]"
			}
			h.writeMicroShiftFile("config.d/20-named.yaml", text+"}]}\n")
		}
	}
	less := func(list *[]string, name string) {
		*list = slices.DeleteFunc(*list, func(one string) bool { return one == name })
	}
	for _, f := range []faultCase{
		{
			name: "a configuration that is refused", config: "node: {nodeIP: nonsense}\n", reason: "NoVIPs",
			want: []string{"microshift-config-invalid"}, firstTexts: []string{`node.nodeIP is "nonsense"`},
		},
		{
			name: "no address after the service network", config: "network: {serviceNetwork: [255.255.0.0/16]}\n",
			reason:     "NoVIPs",
			want:       []string{"microshift-config-invalid"},
			firstTexts: []string{"no address follows network.serviceNetwork 255.255.0.0/16"},
		},
		{
			name: "no router", config: "ingress: {status: Removed}\n", reason: "UpstreamUnreachable", documented: true,
			want: []string{"microshift-router-removed"}, firstTexts: []string{"Managed"}, fixed: true,
		},
		{
			name: "a router on an address of another host", config: "ingress: {listenAddress: [192.0.2.99]}\n",
			reason: "UpstreamUnreachable", documented: true,
			want: []string{"microshift-router-no-address"},
		},
		{
			name: "a node address of another host", config: "node: {nodeIP: 192.0.2.99}\ningress: {ports: {http: 8080}}\n",
			reason: "NoVIPs", documented: true,
			want:       []string{"microshift-node-address-missing", "microshift-api-server-unreachable"},
			firstTexts: []string{"192.0.2.99 is not on this host", "node.nodeIP"},
		},
		{
			name: "a router that does not listen where it should", config: "ingress: {ports: {http: 8080}}\n",
			reason:     "UpstreamUnreachable",
			want:       []string{"microshift-router-unreachable"},
			firstTexts: []string{node + ":8080", "openshift-ingress"},
		},
		{
			name:   "the node's address is the internal one, and the router on another port",
			config: "apiServer: {advertiseAddress: " + node + "}\ningress: {ports: {http: 8080}}\n", reason: "NoVIPs",
			router:      lab.RouterOptions{Port: 8080},
			edit:        func(_ *host, s *servingCertificates) { less(&s.external, node); s.service = append(s.service, node) },
			want:        []string{"microshift-node-address-internal", "microshift-external-client-gets-internal"},
			firstTexts:  []string{node + " is also the internal address"},
			secondTexts: []string{node + " (without SNI)", "for internal clients", "kube-apiserver-service-network-signer"},
		},
		{
			name: "a name that is missing",
			edit: func(_ *host, s *servingCertificates) { less(&s.external, apiName) },
			want: []string{"microshift-name-missing"},
			firstTexts: []string{
				"for " + apiName, "issued by \"kube-apiserver-service-network-signer\")",
				"apiServer.subjectAltNames",
			},
		},
		{
			name: "an address of the node that is missing", config: "node: {nodeIP: " + node + ", nodeIPv6: '" + node6 + "'}\n" +
				"network: {clusterNetwork: [10.42.0.0/16, 'fd01::/48'], serviceNetwork: [10.43.0.0/16, 'fd02::/112']}\n",
			edit:       func(h *host, s *servingCertificates) { h.addInternal("fd02::1:0"); less(&s.external, node6) },
			want:       []string{"microshift-name-missing"},
			firstTexts: []string{"[" + node6 + "]:6443 presents for " + node6 + " (without SNI)"},
		},
		{
			name:       "an external name in the certificate of the service network",
			edit:       func(_ *host, s *servingCertificates) { less(&s.external, "api.example.com") },
			want:       []string{"microshift-external-client-gets-internal"},
			firstTexts: []string{"api.example.com", "for internal clients"},
		},
		{
			name: "an external name in the certificate of localhost",
			edit: func(_ *host, s *servingCertificates) {
				less(&s.external, apiName)
				s.localhost = append(s.localhost, apiName)
			},
			want:       []string{"microshift-external-client-gets-internal"},
			firstTexts: []string{apiName, "for internal clients, issued by \"kube-apiserver-localhost-signer\""},
		},
		{
			name:       "expired certificates of MicroShift",
			edit:       func(_ *host, s *servingCertificates) { s.left = -time.Hour },
			want:       []string{"certificate-expired"},
			firstTexts: []string{"kube-apiserver-external-signer", "restart MicroShift"},
		},
		{
			name: "certificates of MicroShift that were not renewed",
			edit: func(_ *host, s *servingCertificates) { s.left = 60 * day },
			want: []string{"certificate-expires-soon"},
		},
		{
			name: "an administrator's certificate by name", edit: admins("Public CA", []string{apiName}, []string{apiName},
				80*day, false),
			text: apiName + `: issued by "Public CA"`,
		},
		{
			name: "an administrator's certificate by its own names", edit: admins("Public CA", []string{apiName}, nil, 80*day,
				false),
			text: apiName + `: issued by "Public CA"`,
		},
		{
			name: "a certificate that MicroShift ignores", edit: admins("Public CA", []string{apiName}, []string{apiName},
				80*day, true),
			want:       []string{"microshift-named-certificate-ignored"},
			firstTexts: []string{"for " + apiName, "kube-apiserver-external-signer", "its journal"},
		},
		{
			name: "a certificate for another name", edit: admins("Public CA", []string{"www.edge.test"}, []string{apiName},
				80*day, false),
			want:       []string{"microshift-name-missing"},
			firstTexts: []string{"issued by \"Public CA\""},
		},
		{
			name: "a certificate that was not renewed", edit: admins("Public CA", []string{apiName}, []string{apiName}, 8*day,
				false),
			want: []string{"certificate-expiry-urgent"},
		},
		{
			name: "an internal address in use", config: "network: {serviceNetwork: [10.53.0.0/16]}\n",
			edit: func(h *host, s *servingCertificates) {
				h.run("address add 10.54.0.0/24 dev ens3", "address del 10.54.0.0/24 dev ens3")
				s.service = append(s.service, "10.54.0.0", "10.53.0.1")
			},
			want:       []string{"microshift-internal-address-conflict"},
			firstTexts: []string{"10.54.0.0", "ens3 has 10.54.0.0/24"},
		},
	} {
		t.Run(f.name, func(t *testing.T) {
			h := on.resetHost(t)
			h.writeMicroShiftFile("config.yaml", "apiServer: {subjectAltNames: ["+apiName+"]}\n")
			h.writeMicroShiftFile("config.d/10-fault.yaml", f.config)
			h.addInternal("10.44.0.0")
			s := h.healthyCertificates()
			if f.edit != nil {
				f.edit(h, &s)
			}
			if f.router.Port != 0 {
				h.restartRouter(f.router)
				on := h
				t.Cleanup(func() { on.restartRouter(lab.RouterOptions{}) })
			}
			serveAPI(t, h.node(), s)
			if f.reason == "" {
				f.reason = "NotRequired"
			}
			service := h.start(h.config(""), f.reason)
			if f.documented {
				h.expectDocumented(h.awaitMessage(service, f.reason, ""))
			}
			r := h.check(slices.Clone(f.want)...) // expectFindings sorts its arguments
			for i, parts := range [][]string{f.firstTexts, f.secondTexts} {
				if len(parts) > 0 {
					h.expectFinding(r, f.want[i], parts...)
				}
			}
			h.expectCheckText(r, "certificate", f.text)
			if f.fixed {
				must(t, h.node().RunCommands(t.Context(), r.Commands(f.want[0])))
				h.awaitMessage(service, "NotRequired", "")
				h.check()
			}
		})
	}
}

// resetHost returns the host for another test with an empty MicroShift configuration.
func (h *host) resetHost(t *testing.T) *host {
	t.Helper()
	must(t, os.RemoveAll(h.dir()))
	must(t, os.MkdirAll(h.dir(), 0o755))
	return &host{h.Lab, t}
}

// TestNamedCertificateRenewed renews a certificate while the API server runs. The server
// reloads the files and check reads the new certificate.
func TestNamedCertificateRenewed(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.addInternal("10.44.0.0")
	now := time.Now()
	cert, key := issueCertificate(t, t.TempDir(), "Public CA", []string{apiName}, now.Add(-82*day), now.Add(8*day))
	h.writeMicroShiftFile("config.yaml",
		fmt.Sprintf("apiServer: {subjectAltNames: [%s], namedCertificates: [{certPath: %s, keyPath: %s}]}\n", apiName, cert,
			key))
	s := h.healthyCertificates()
	s.named = []namedPair{{cert: cert, key: key}}
	serveAPI(t, h.node(), s)
	h.start(h.config(""), "NotRequired")
	h.expectFinding(h.check("certificate-expiry-urgent"), "certificate-expiry-urgent", apiName)

	cert2, key2 := issueCertificate(t, t.TempDir(), "Renewed CA", []string{apiName}, now.Add(-day), now.Add(89*day))
	for from, to := range map[string]string{cert2: cert, key2: key} {
		must(t, os.Rename(from, to))
	}
	must(t, lab.Eventually(t.Context(), "the API server presents the renewed certificate", func(context.Context) error {
		if by := h.presented(h.v4().String(), apiName); by != "Renewed CA" {
			return fmt.Errorf("issued by %q", by)
		}
		return nil
	}))
	h.expectCheckText(h.check(), "certificate", apiName+`: issued by "Renewed CA"`)
}

// TestServersSilent holds that check reports an API port that refuses connections. It queries
// all servers in time when none answers, and reports each once.
func TestServersSilent(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.writeMicroShiftFile("config.yaml", h.dualStackConfig())
	h.writeMicroShiftFile("config.d/names.yaml",
		fmt.Sprintf(
			"apiServer: {subjectAltNames: [%s, '%s', a.edge.test, b.edge.test, c.edge.test, d.edge.test, e.edge.test]}\n",
			apiName, h.v6()))
	h.addInternal("10.44.0.0")
	h.addInternal("fd02::1:0")
	h.start(h.config(""), "NotRequired")
	r := h.check("microshift-api-server-unreachable")
	h.expectFinding(r, "microshift-api-server-unreachable", h.v4().String()+":6443", "connection refused")
	_, err := h.node().Input(t.Context(),
		"table inet silent { chain input { type filter hook input priority 0; tcp dport 6443 drop; }; }\n", "nft", "-f", "-")
	must(t, err)
	r = h.check("microshift-api-server-unreachable")
	h.expectFinding(r, "microshift-api-server-unreachable", h.v4().String()+":6443 (also ["+h.v6().String()+"]:6443)")
	if c := r.Check("certificate"); strings.Contains(c.Text+c.NotChecked, "time") {
		t.Errorf("not enough time: %+v", c)
	}
	_, err = h.node().Run(t.Context(), "nft", "delete table inet silent")
	must(t, err)
}

// TestConfiguredVIPs holds that configured VIPs win, and that the internal address is not
// one of them.
func TestConfiguredVIPs(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.run("address add 192.0.2.40/24 dev ens3", "address del 192.0.2.40/24 dev ens3")
	h.writeMicroShiftFile("config.yaml", "apiServer: {subjectAltNames: ["+apiName+"]}\n")
	h.restartRouter(lab.RouterOptions{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.40")}})
	h.addInternal("10.44.0.0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(
		fmt.Sprintf("vips: {api: [%s, 10.44.0.0], ingress: [192.0.2.40]}\nhosts: [%s]\nmicroshift: {directory: %s}\n", h.v4(),
			apiName, h.dir()), "Serving")
	h.certificate(lab.Pair{V4: h.v4()})
	h.awaitMessage(s, "Serving",
		"10.44.0.0 is the internal address of MicroShift's API server, which is never redirected: delete it from vips.api")
	r := h.check("microshift-internal-address-as-vip")
	h.expectFinding(r, "microshift-internal-address-as-vip",
		"10.44.0.0 is the internal address of MicroShift's API server")
	h.expectCheckText(r, "internal-address", "10.44.0.0: on lo")
}

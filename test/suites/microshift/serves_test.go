// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// request sends a request other than a challenge from the internet to an address.
func (h *host) request(at netip.Addr) string {
	h.t.Helper()
	text, err := h.Internet.Raw(h.t.Context(), netip.AddrPortFrom(at, 80).String(),
		"GET / HTTP/1.1\r\nHost: app.edge.test\r\nConnection: close\r\n\r\n")
	must(h.t, err)
	return text
}

const rejection = "Only /.well-known/acme-challenge/* is allowed"

// expectTrace has check follow a pending challenge, which must pass.
func (h *host) expectTrace() {
	h.t.Helper()
	const token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	solver, err := h.Solve(h.t.Context(), apiName, token, token+"."+strings.Repeat("x", 43))
	must(h.t, err)
	_, err = h.Internet.GetAs(h.t.Context(), lab.SelfCheckAgent, "http://"+apiName+"/.well-known/acme-challenge/"+token)
	must(h.t, err)
	r, code, err := h.node().Check(h.t.Context(), shared.binary, "--token", token)
	must(h.t, err)
	if code != 0 || len(r.Trace) == 0 || len(r.IDs()) > 0 {
		h.t.Errorf("exit code %d: %v %+v", code, r.IDs(), r.Trace)
	}
	must(h.t, solver.Remove(h.t.Context()))
}

// TestNotRequired holds that the service is idle when the router has port 80 of the node
// and answers challenges itself.
func TestNotRequired(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.writeMicroShiftFile("config.yaml", "apiServer: {subjectAltNames: ["+apiName+"]}\n")
	h.addInternal("10.44.0.0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(h.config(""), "NotRequired")
	only := lab.Pair{V4: h.v4()}
	h.certificate(only)
	seen := h.awaitMessage(s, "NotRequired", "MicroShift's router serves port 80 of "+h.v4().String()+
		", according to its configuration")
	if seen.Table.Present || seen.Challenges.Total != 0 {
		t.Errorf("a table, or challenges: %+v", seen)
	}
	if text := h.request(h.v4()); !strings.HasPrefix(text, "HTTP/1.0 503") {
		t.Errorf("port 80 is not the router's: %.200q", text)
	}
	r := h.check()
	h.expectCheckText(r, "vips", "MicroShift's router serves port 80 of "+h.v4().String()+
		", according to its configuration (from "+h.dir()+")")
	h.expectCheckText(r, "internal-address", "10.44.0.0: on lo (the first address after the service network)")
	h.expectCheckText(r, "certificate", apiName, `kube-apiserver-external-signer`)
	text, _, err := h.node().CheckText(t.Context(), shared.binary)
	must(t, err)
	h.expectPrinted(text)
	h.expectDocumented(seen)
	h.expectTrace()

	// The router is stopped, although the configuration enables it.
	must(t, h.Routers[0].StopRouter(t.Context()))
	r = h.check("microshift-router-unreachable")
	h.expectFinding(r, "microshift-router-unreachable", h.v4().String()+":80", "refuses", "openshift-ingress")
	must(t, h.Routers[0].StartRouter(t.Context(), lab.RouterOptions{}))
}

// TestOtherPort has the router on another port of the node, in both families.
func TestOtherPort(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.writeMicroShiftFile("config.yaml", h.dualStackConfig())
	h.writeMicroShiftFile("config.d/10-ingress.yaml", "ingress: {ports: {http: 8080, https: 8443}}\n")
	h.restartRouter(lab.RouterOptions{Port: 8080})
	h.addInternal("10.44.0.0")
	h.addInternal("fd02::1:0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(h.config("")+"selfTest: {interval: 10s}\n", "Serving")
	for _, at := range []lab.Pair{{V4: h.v4()}, {V6: h.v6()}, h.node().Addresses} {
		h.certificate(at)
	}
	for _, at := range h.node().Addresses.Both() {
		if text := h.request(at); !strings.HasPrefix(text, "HTTP/1.1 400 ") || !strings.Contains(text, rejection) {
			t.Errorf("%s: %.200q", at, text)
		}
	}
	if seen := h.awaitMessage(s, "Serving", "(MicroShift's node address)"); len(seen.Table.Elements) != 2 ||
		seen.Challenges.Total == 0 {
		t.Errorf("%+v", seen)
	}
	r := h.check()
	h.expectCheckText(r, "vips", "holds "+h.v4().String()+", "+h.v6().String(), "port 8080")
	h.expectCheckText(r, "ingress", h.v4().String()+":8080")
	h.expectCheckText(r, "internal-address", "10.44.0.0, fd02::1:0: on lo")
	h.expectCheckText(r, "self-check", "http01-proxyd responds")
	h.expectCheckText(r, "dns", apiName)
	h.expectTrace()
	_, err := s.Await(t.Context(), "the self-tests of both addresses", func(seen lab.Status) error {
		if len(seen.SelfTests) != 2 || !seen.SelfTests[0].OK || !seen.SelfTests[1].OK {
			return fmt.Errorf("results: %+v", seen.SelfTests)
		}
		return nil
	})
	must(t, err)
}

// TestOtherAddress has the router on port 80 of another address.
func TestOtherAddress(t *testing.T) {
	h := open(t, lab.LinkNIC)
	other := netip.MustParseAddr("192.0.2.40")
	h.run("address add 192.0.2.40/24 dev ens3", "address del 192.0.2.40/24 dev ens3")
	h.writeMicroShiftFile("config.yaml", "apiServer: {subjectAltNames: ["+apiName+
		"]}\ningress: {listenAddress: [192.0.2.40]}\n")
	h.restartRouter(lab.RouterOptions{Addresses: []netip.Addr{other}})
	h.addInternal("10.44.0.0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(h.config(""), "Serving")
	h.expectDocumented(h.awaitMessage(s, "Serving", ""))
	h.certificate(lab.Pair{V4: h.v4()})
	if text := h.request(other); !strings.HasPrefix(text, "HTTP/1.0 503") {
		t.Errorf("the router's own address: %.200q", text)
	}
	if text := h.request(h.v4()); !strings.Contains(text, rejection) {
		t.Errorf("the node's address: %.200q", text)
	}
	h.expectCheckText(h.check(), "vips", "its router is at 192.0.2.40, port 80")
}

// TestBridge holds that MicroShift has the internal address on OVN-Kubernetes's bridge.
func TestBridge(t *testing.T) {
	h := open(t, lab.LinkPlain)
	h.writeMicroShiftFile("config.yaml", "node: {nodeIP: "+h.v4().String()+"}\napiServer: {subjectAltNames: ["+apiName+
		"]}\n")
	h.addInternal("10.44.0.0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(h.config(", manageAdvertiseAddress: true"), "NotRequired")
	h.certificate(lab.Pair{V4: h.v4()})
	h.expectCheckText(h.check(), "internal-address", "10.44.0.0: on br-ex")
	must(t, s.Stop(t.Context()))
	if on, err := h.node().Holds(t.Context(), netip.MustParseAddr("10.44.0.0")); !on || err != nil {
		t.Errorf("the address was removed from br-ex: %v", err)
	}
}

// TestManaged holds that the service keeps the internal addresses on lo while it runs.
func TestManaged(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.writeMicroShiftFile("config.yaml", h.dualStackConfig())
	serveAPI(t, h.node(), h.healthyCertificates())
	h.certificate(h.node().Addresses)
	r := h.check("microshift-internal-address-missing", "service-not-running")
	h.expectFinding(r, "microshift-internal-address-missing", "10.44.0.0 (also fd02::1:0), by which",
		"manageAdvertiseAddress: true")
	s := h.start(h.config(", manageAdvertiseAddress: true"), "NotRequired")
	must(t, lab.Eventually(t.Context(), "the addresses on lo", h.checkOnLo("10.44.0.0/32", "fd02::1:0/128")))
	h.expectCheckText(h.check(), "internal-address", "10.44.0.0, fd02::1:0: on lo")
	must(t, s.Stop(t.Context()))
	if strings.Contains(h.lo(), "10.44.0.0") || strings.Contains(h.lo(), "fd02::1:0") {
		t.Errorf("left on lo: %s", h.lo())
	}

	// MicroShift would use the second one as the node's address.
	h.writeMicroShiftFile("config.yaml", strings.Replace(h.dualStackConfig(), ", nodeIPv6: '"+h.v6().String()+"'", "", 1))
	s = h.start(h.config(", manageAdvertiseAddress: true"), "NotRequired")
	h.awaitMessage(s, "NotRequired", "set node.nodeIPv6")
	h.check("microshift-internal-address-missing")
	must(t, s.Stop(t.Context()))
	h.writeMicroShiftFile("config.yaml", h.dualStackConfig())

	// A route to another site's network covers the address.
	h.run("route add 10.44.0.0/16 via "+h.Gateway.Addresses.V4.String(), "route del 10.44.0.0/16")
	h.start(h.config(", manageAdvertiseAddress: true"), "NotRequired")
	r = h.check("microshift-internal-address-conflict")
	h.expectFinding(r, "microshift-internal-address-conflict", "10.44.0.0", "the route 10.44.0.0/16 via ens3 covers it",
		"network.serviceNetwork")

	// The service does not add a configured advertiseAddress.
	h.writeMicroShiftFile("config.d/50-forced.yaml", "apiServer: {advertiseAddress: 192.0.2.77}\n")
	r = h.check("microshift-advertise-address-missing")
	h.expectFinding(r, "microshift-advertise-address-missing", "192.0.2.77 (apiServer.advertiseAddress) is on no link")
	if strings.Contains(h.lo(), "192.0.2.77") {
		t.Errorf("on lo: %s", h.lo())
	}
}

// TestIPv6Only holds that an IPv6 node address has other defaults.
func TestIPv6Only(t *testing.T) {
	h := openLayout(t, lab.Layout{Link: lab.LinkNIC, Families: lab.IPv6Only})
	h.writeMicroShiftFile("config.yaml", "apiServer: {subjectAltNames: ["+apiName+"]}\ningress: {ports: {http: 8080}}\n")
	h.restartRouter(lab.RouterOptions{Port: 8080})
	h.addInternal("fd02::1:0")
	s := h.healthyCertificates()
	s.external, s.service = append(s.external[:3:3], h.v6().String()), append(s.service, "fd02::1:0", "fd02::1")
	serveAPI(t, h.node(), s)
	h.start(h.config(""), "Serving")
	h.certificate(lab.Pair{V6: h.v6()})
	r := h.check()
	h.expectCheckText(r, "vips", "holds "+h.v6().String()+" (MicroShift's node address); its router is at "+
		h.v6().String())
	h.expectCheckText(r, "internal-address", "fd02::1:0: on lo")
}

// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// serveInternal makes the router listen on port 80 of the internal address.
func (h *host) serveInternal() {
	h.t.Helper()
	h.restartRouter(lab.RouterOptions{Addresses: []netip.Addr{netip.MustParseAddr("10.44.0.0")}})
}

// expectNotRedirected expects that connections to the internal address reach its listener.
func (h *host) expectNotRedirected() {
	h.t.Helper()
	out, err := h.node().Run(context.WithoutCancel(h.t.Context()), "curl", "-sS", "--max-time", "5", "-H",
		"Host: app.edge.test", "http://10.44.0.0/")
	must(h.t, err)
	if strings.Contains(out, rejection) {
		h.t.Errorf("the internal address is redirected: %.200q", out)
	}
	rules := h.ruleset()
	if strings.Contains(rules, "10.44.0.0") {
		h.t.Errorf("the internal address is in a table:\n%s", rules)
	}
}

// TestInternalAddressNotRedirected holds that the service never redirects the internal
// address, whatever its configuration: on lo, and on br-ex if OVN-Kubernetes created it.
func TestInternalAddressNotRedirected(t *testing.T) {
	for name, link := range map[string]lab.Link{"lo": lab.LinkNIC, "br-ex": lab.LinkPlain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, link)
			h.addInternal("10.44.0.0")
			h.serveInternal()
			given := func(api string) string {
				return fmt.Sprintf("vips: {api: [%s], ingress: [192.0.2.40]}\nhosts: [%s]\nmicroshift: {directory: \"\"}\n", api,
					apiName)
			}
			s := h.start(given("10.44.0.0"), "NoVIPs")
			h.awaitMessage(s, "NoVIPs",
				"10.44.0.0 is a single address on lo or br-ex, where MicroShift puts the internal address of "+
					"its API server, which is never redirected: set vips.api to the address that clients use for the API; "+
					"if it is a VIP, move it to another link, or add it with the prefix length of its network")
			h.expectNotRedirected()
			r, _, err := h.node().Check(t.Context(), shared.binary)
			must(t, err)
			h.expectFinding(r, "microshift-internal-address-as-vip",
				"10.44.0.0 is the internal address of MicroShift's API server", "add it to another link than lo and br-ex")
			must(t, s.Stop(t.Context()))

			// Beside a VIP, and added after the service started.
			ip := func(do string) {
				_, err := h.node().Run(t.Context(), "ip", "address", do, "10.44.0.0/32", "dev", name)
				must(t, err)
			}
			must(t, h.Routers[0].StopRouter(t.Context()))
			ip("del")
			s = h.start(given(h.v4().String()+", 10.44.0.0"), "UpstreamUnreachable")
			ip("add")
			h.serveInternal()
			must(t, lab.Eventually(t.Context(), "the finding of check", func(ctx context.Context) error {
				r, _, err := h.node().Check(ctx, shared.binary)
				if err == nil && len(r.Check("vips").Findings) != 1 {
					err = fmt.Errorf("%+v", r.Check("vips"))
				}
				return err
			}))
			h.expectNotRedirected()
			must(t, s.Stop(t.Context()))
		})
	}
}

// TestOtherPrefix holds that MicroShift's default address on another link is redirected as
// a VIP.
func TestOtherPrefix(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.run("address add 10.44.0.0/13 dev ens3", "address del 10.44.0.0/13 dev ens3")
	h.run("address add 192.0.2.40/24 dev ens3", "address del 192.0.2.40/24 dev ens3")
	h.restartRouter(lab.RouterOptions{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.40")}})
	s := h.start("vips: {api: [10.44.0.0], ingress: [192.0.2.40]}\nmicroshift: {directory: \"\"}\n", "Serving")
	h.awaitMessage(s, "Serving", "holds 10.44.0.0")
	out, err := h.node().Run(t.Context(), "curl", "-sS", "--max-time", "5", "http://10.44.0.0/")
	must(t, err)
	if !strings.Contains(out, rejection) {
		t.Errorf("not redirected: %.200q", out)
	}
}

// TestInvalidConfig holds that the service and check use the last good configuration while
// MicroShift's is invalid.
func TestInvalidConfig(t *testing.T) {
	h := open(t, lab.LinkNIC)
	h.writeMicroShiftFile("config.yaml", "ingress: {ports: {http: 8080}}\n")
	h.restartRouter(lab.RouterOptions{Port: 8080})
	h.addInternal("10.44.0.0")
	serveAPI(t, h.node(), h.healthyCertificates())
	s := h.start(h.config(""), "Serving")
	h.writeMicroShiftFile("config.yaml", "ingress: {ports: {http: eighty}}\n")
	h.awaitMessage(s, "Serving", "MicroShift's configuration in "+h.dir()+
		" is invalid: ingress.ports.http contains a value of type string; "+
		"it must be of type port; MicroShift's last good configuration stays in use")
	if text := h.request(h.v4()); !strings.Contains(text, rejection) {
		t.Errorf("the node's port 80: %.200q", text)
	}
	r, _, err := h.node().Check(t.Context(), shared.binary)
	must(t, err)
	h.expectFinding(r, "microshift-config-invalid", "ingress.ports.http contains a value of type string")
	h.expectCheckText(r, "ingress", h.v4().String()+":8080")
	must(t, s.Stop(t.Context()))
	h.start(h.config(""), "NoVIPs")
}

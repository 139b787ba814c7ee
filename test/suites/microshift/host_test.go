// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// apiName is the API's name for external clients and CAs.
const apiName = "api.edge.test"

// host is a MicroShift host in its own lab, with a router on port 80 of every address and
// no running service.
type host struct {
	*lab.Lab

	t *testing.T
}

// open brings up the lab until the test ends. At the end the host's ruleset and lo must be
// unchanged.
func open(t *testing.T, link lab.Link) *host {
	t.Helper()
	return openLayout(t, lab.Layout{Link: link})
}

// openLayout is open with address families of the layout.
func openLayout(t *testing.T, y lab.Layout) *host {
	t.Helper()
	y.ControlPlaneNodes, y.Compact, y.NoVIPs = 1, true, true
	h := &host{Lab: labtest.Open(shared.ctx, t, y), t: t}
	rules, lo := h.ruleset(), h.lo()
	t.Cleanup(func() {
		if diff := cmp.Diff(rules, h.ruleset()); diff != "" {
			t.Errorf("ruleset (-before +after the service):\n%s", diff)
		}
		if diff := cmp.Diff(lo, h.lo()); diff != "" {
			t.Errorf("lo (-before +after):\n%s", diff)
		}
	})
	must(t, os.MkdirAll(h.dir(), 0o755))
	must(t, h.node().WriteConfig(h.config("")))
	must(t, h.node().WriteHostFile("resolv.conf", fmt.Sprintf("nameserver %s\n", h.DNS()[0])))
	return h
}

func (h *host) node() *lab.Node { return h.ControlPlane[0].Node }

func (h *host) v4() netip.Addr { return h.node().Addresses.V4 }

func (h *host) v6() netip.Addr { return h.node().Addresses.V6 }

// dir returns the directory in place of /etc/microshift.
func (h *host) dir() string { return filepath.Join(h.node().Dir, "microshift") }

func (h *host) ruleset() string {
	h.t.Helper()
	text, err := h.node().Ruleset(context.Background())
	must(h.t, err)
	return text
}

func (h *host) lo() string {
	h.t.Helper()
	text, err := h.node().Run(context.Background(), "ip", "-br", "address", "show", "dev", "lo")
	must(h.t, err)
	return strings.Join(strings.Fields(text), " ")
}

// writeMicroShiftFile replaces one file of MicroShift's configuration by rename.
func (h *host) writeMicroShiftFile(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir(), filepath.FromSlash(name))
	must(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(h.t, os.WriteFile(path+".new", []byte(text), 0o644))
	must(h.t, os.Rename(path+".new", path))
}

// addInternal adds an address where MicroShift adds it until the test ends.
func (h *host) addInternal(addr string) {
	h.t.Helper()
	link := "lo"
	if links, err := h.node().Run(h.t.Context(), "ip", "-br", "link"); err == nil && strings.Contains(links, "br-ex") {
		link = "br-ex"
	}
	h.run("address add "+single(addr)+" dev "+link, "address del "+single(addr)+" dev "+link)
}

func single(addr string) string {
	a := netip.MustParseAddr(addr)
	return netip.PrefixFrom(a, a.BitLen()).String()
}

// run runs an ip(8) command, and another one at the end of the test.
func (h *host) run(do, undo string) {
	h.t.Helper()
	_, err := h.node().Run(h.t.Context(), "ip", strings.Fields(do)...)
	must(h.t, err)
	t := h.t
	t.Cleanup(func() {
		_, err := h.node().Run(context.Background(), "ip", strings.Fields(undo)...)
		must(t, err)
	})
}

// restartRouter restarts the router with MicroShift's settings.
func (h *host) restartRouter(o lab.RouterOptions) {
	h.t.Helper()
	// It also runs at the end of a test, whose context has ended.
	ctx := context.WithoutCancel(h.t.Context())
	must(h.t, h.Routers[0].StopRouter(ctx))
	must(h.t, h.Routers[0].StartRouter(ctx, o))
}

// config returns the service's configuration.
func (h *host) config(more string) string {
	return h.node().DefaultConfig() + fmt.Sprintf("microshift: {directory: %s%s}\n", h.dir(), more)
}

// start runs the service until the test ends, and waits for a reason.
func (h *host) start(config, reason string) *lab.Service {
	h.t.Helper()
	s := h.launch(lab.ServiceOptions{Config: config})
	h.awaitMessage(s, reason, "")
	return s
}

// launch runs the service without waiting for a reason.
func (h *host) launch(o lab.ServiceOptions) *lab.Service {
	h.t.Helper()
	o.Binary = shared.binary
	s, err := h.node().StartService(h.t.Context(), o)
	must(h.t, err)
	t := h.t
	t.Cleanup(func() { must(t, s.End(context.Background())) })
	return s
}

// awaitMessage waits for a reason and a part of the message.
func (h *host) awaitMessage(s *lab.Service, reason, part string) lab.Status {
	h.t.Helper()
	return h.awaitCondition(s, reason, func(message string) bool { return strings.Contains(message, part) })
}

// awaitCondition waits for a reason and a matching message.
func (h *host) awaitCondition(s *lab.Service, reason string, is func(message string) bool) lab.Status {
	h.t.Helper()
	seen, err := s.Await(h.t.Context(), reason, func(seen lab.Status) error {
		if c := seen.Condition(); c.Reason != reason || !is(c.Message) {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
	must(h.t, err)
	return seen
}

// check runs the check command and expects exactly these findings.
func (h *host) check(want ...string) lab.CheckReport {
	h.t.Helper()
	r, _, err := h.node().Check(h.t.Context(), shared.binary)
	must(h.t, err)
	got := r.IDs()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		h.t.Errorf("findings (-want +got):\n%s\n%+v", diff, r)
	}
	return r
}

// expectFinding expects that the text of a finding contains these parts.
func (h *host) expectFinding(r lab.CheckReport, id string, parts ...string) {
	h.t.Helper()
	all := r.Texts(id)
	for _, part := range parts {
		if !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, part) }) {
			h.t.Errorf("%s: text %q, want %q", id, all, part)
		}
	}
}

// expectCheckText expects that the text or the skipped parts of a check contain these
// parts.
func (h *host) expectCheckText(r lab.CheckReport, check string, parts ...string) {
	h.t.Helper()
	c := r.Check(check)
	for _, part := range parts {
		if !strings.Contains(c.Text+"; "+c.NotChecked, part) {
			h.t.Errorf("%s: texts %q and %q, want %q", check, c.Text, c.NotChecked, part)
		}
	}
}

// certificate orders a certificate for the API's name with addresses of the host.
func (h *host) certificate(at lab.Pair) {
	h.t.Helper()
	must(h.t, h.Internet.SetName(h.t.Context(), apiName, at))
	_, err := h.Certificate(h.t.Context(), lab.Order{Name: apiName, SelfCheckFrom: h.Pods[0]})
	must(h.t, err)
}

// healthyCertificates returns the names in MicroShift's own certificates on a healthy
// dual-stack host with api.edge.test among the subject's names.
func (h *host) healthyCertificates() servingCertificates {
	name, err := os.Hostname()
	must(h.t, err)
	return servingCertificates{
		external:  []string{name, "api.example.com", apiName, h.v4().String(), h.v6().String()},
		localhost: []string{"localhost"},
		service: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"openshift", "openshift.default", "openshift.default.svc", "openshift.default.svc.cluster.local",
			"api.example.com", "api-int.example.com", "10.44.0.0", "10.43.0.1",
		},
	}
}

// dualStackConfig returns MicroShift's dual-stack configuration.
func (h *host) dualStackConfig() string {
	return fmt.Sprintf("node: {nodeIP: %s, nodeIPv6: '%s'}\n"+
		"network: {clusterNetwork: [10.42.0.0/16, 'fd01::/48'], serviceNetwork: [10.43.0.0/16, 'fd02::/112']}\n"+
		"apiServer: {subjectAltNames: [%s, '%s']}\n", h.v4(), h.v6(), apiName, h.v6())
}

// checkOnLo returns an error unless these addresses are on lo.
func (h *host) checkOnLo(all ...string) func(context.Context) error {
	return func(context.Context) error {
		for _, one := range all {
			if lo := h.lo(); !strings.Contains(lo, one) {
				return fmt.Errorf("%s is not there: %s", one, lo)
			}
		}
		return nil
	}
}

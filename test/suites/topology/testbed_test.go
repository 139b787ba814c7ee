// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// testbed is a lab of one topology without a running service.
type testbed struct {
	*lab.Lab

	t        *testing.T
	services map[string]*lab.Service // by node name
	names    int
	checked  bool
	found    map[string]bool // findings of check during the test
	idle     bool            // no node has a VIP
}

// open brings up a lab until the test ends. At the end every node's ruleset must be
// unchanged.
func open(t *testing.T, y lab.Layout) *testbed {
	t.Helper()
	s := &testbed{
		Lab: labtest.Open(shared.ctx, t, y), t: t, services: map[string]*lab.Service{}, found: map[string]bool{},
		idle: y.NoVIPs,
	}
	t.Cleanup(func() {
		if diff := cmp.Diff(s.row().findings, slices.Sorted(maps.Keys(s.found))); !t.Failed() && (diff != "" || !s.checked) {
			t.Errorf("findings of check (run: %t) in %s (-documented +seen):\n%s", s.checked, document, diff)
		}
	})
	before := s.rulesets()
	t.Cleanup(func() {
		if diff := cmp.Diff(before, s.rulesets()); diff != "" {
			t.Errorf("rulesets (-before +after the services):\n%s", diff)
		}
	})
	return s
}

// rulesets returns the rulesets of the control-plane nodes.
func (s *testbed) rulesets() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, n := range s.nodes() {
		// Cleanups run after the test's context ended.
		text, err := n.Ruleset(context.Background())
		must(s.t, err)
		all[n.Name] = text
	}
	return all
}

// nodes returns the hosts of the control plane.
func (s *testbed) nodes() []*lab.Node {
	var all []*lab.Node
	for _, m := range s.ControlPlane {
		all = append(all, m.Node)
	}
	if s.Arbiter != nil {
		all = append(all, s.Arbiter.Node)
	}
	return all
}

// start runs the service on a node until the test ends. It must then exit with status 0 and
// leave no table.
func (s *testbed) start(n *lab.Node, o lab.ServiceOptions) *lab.Service {
	s.t.Helper()
	o.Binary = shared.binary
	service, err := n.StartService(s.t.Context(), o)
	must(s.t, err)
	s.services[n.Name] = service
	s.t.Cleanup(func() {
		ctx := context.Background()
		if err := service.Stop(ctx); err != nil {
			s.t.Errorf("stop the service on %s: %v", n, err)
		}
		if left, err := n.HasServiceTable(ctx); left || err != nil {
			s.t.Errorf("table left on %s: %t, %v", n, left, err)
		}
	})
	return service
}

// startAll runs the service on every control-plane node.
func (s *testbed) startAll() {
	s.t.Helper()
	for _, m := range s.ControlPlane {
		s.start(m.Node, lab.ServiceOptions{})
	}
}

// startServices opens a lab with everything that check tests, and runs the service on every
// control-plane node.
func startServices(t *testing.T, y lab.Layout) *testbed {
	t.Helper()
	s := open(t, y)
	s.startClusterServices()
	s.startAll()
	return s
}

// startWithVIPs is startServices with every VIP in place and the state of the test's row.
func startWithVIPs(t *testing.T, y lab.Layout) *testbed {
	t.Helper()
	s := startServices(t, y)
	s.awaitPlacement()
	s.expectStates()
	return s
}

// awaitPlacement waits until each control-plane node's service holds exactly the node's
// VIPs, also in its table.
func (s *testbed) awaitPlacement() {
	s.t.Helper()
	must(s.t, s.AwaitVIPs(s.t.Context()))
	for _, m := range s.ControlPlane {
		held := s.held(m.Node)
		reason := "Standby"
		if len(held) > 0 {
			reason = "Serving"
		}
		_, err := s.services[m.Name].Await(s.t.Context(), reason, func(seen lab.Status) error {
			if got := seen.Condition(); got.Reason != reason {
				return fmt.Errorf("reason is %s: %s", got.Reason, got.Message)
			}
			for _, vip := range s.AllAPI() {
				want := "Standby"
				if slices.Contains(held, vip.String()) {
					want = "Held"
				}
				if got := seen.VIPState(vip.String()); got != want {
					return fmt.Errorf("VIP %s is %q, not %s", vip, got, want)
				}
			}
			if got := slices.Sorted(slices.Values(seen.Table.Elements)); !slices.Equal(got, held) {
				return fmt.Errorf("the table has %v, not %v", got, held)
			}
			return nil
		})
		must(s.t, err)
	}
}

// held returns the API VIPs that keepalived prefers on a node, sorted as text.
func (s *testbed) held(n *lab.Node) []string {
	var out []string
	for _, vip := range s.AllAPI() {
		if s.Preferred(vip) == n {
			out = append(out, vip.String())
		}
	}
	slices.Sort(out)
	return out
}

// pairs returns the API VIPs in pairs of both families.
func (s *testbed) pairs() []lab.Pair { return append([]lab.Pair{s.API}, s.MoreAPI...) }

// certificate orders a certificate for a name with the given addresses after a self check
// from a node. The requests of the self check and the CA must all pass the VIP holder.
func (s *testbed) certificate(vips lab.Pair, from *lab.Node) {
	s.t.Helper()
	s.names++
	name := fmt.Sprintf("api-%d.%s", s.names, s.Domain)
	must(s.t, s.Internet.SetName(s.t.Context(), name, vips))
	// Clients try IPv6 first, so with both families no request uses IPv4.
	over := vips.Both()[len(vips.Both())-1]
	holder := s.Preferred(over).Name
	before := s.challenges(holder)
	_, err := s.Certificate(s.t.Context(), lab.Order{Name: name, SelfCheckFrom: from})
	must(s.t, err)
	if got := s.challenges(holder) - before; got <= lab.SelfCheckPasses {
		s.t.Errorf("%d challenges for %s, %s, came through %s, not those of the self check from %s and the CA's", got, name,
			over, holder, from)
	}
}

func (s *testbed) challenges(node string) int {
	s.t.Helper()
	seen, err := s.services[node].Status(s.t.Context())
	must(s.t, err)
	return seen.Challenges.Total
}

// expectRejection sends a request other than a challenge to each VIP from the internet and
// expects the proxy's own answer.
func (s *testbed) expectRejection() {
	s.t.Helper()
	for _, vip := range s.AllAPI() {
		text, err := s.Internet.Raw(s.t.Context(), web(vip),
			"GET / HTTP/1.1\r\nHost: api.lab.test\r\nConnection: close\r\n\r\n")
		must(s.t, err)
		if !strings.HasPrefix(text, "HTTP/1.1 400 ") ||
			!strings.Contains(text, "Only /.well-known/acme-challenge/* is allowed") {
			s.t.Errorf("GET / of %s: %.200q", vip, text)
		}
	}
}

func web(vip netip.Addr) string { return netip.AddrPortFrom(vip, 80).String() }

// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestCompactRouterHere holds that the service works where a compact cluster's routers
// listen on *:80 of every control-plane node, including the VIP holder.
func TestCompactRouterHere(t *testing.T) {
	s := startWithVIPs(t, lab.Layout{Compact: true})
	s.expectCompactCertificates(true)
	// The VIP holder's own router also listens on *:80.
	holder := s.Preferred(s.API.V4)
	s.certificate(lab.Pair{V4: s.API.V4}, holder)
	s.certificate(lab.Pair{V6: s.API.V6}, holder)
}

// TestCompactIngressMoves has the ingress VIPs on another node than the API VIPs. It moves
// them to a third one, and then the API VIPs to the same one.
func TestCompactIngressMoves(t *testing.T) {
	s := startWithVIPs(t, lab.Layout{Compact: true, IngressOn: 1})
	s.expectCompactCertificates(false)
	for _, move := range []struct {
		stop     int
		together bool
	}{{1, false}, {0, true}} {
		must(t, s.ControlPlane[move.stop].StopKeepalived(t.Context()))
		s.awaitPlacement()
		s.expectStates()
		s.expectCompactCertificates(move.together)
	}
}

// expectCompactCertificates is expectCertificates for ingress VIPs on the same node as the
// API VIPs or on another one. All challenges must reach the router on the node with the
// ingress VIPs.
func (s *testbed) expectCompactCertificates(together bool) {
	s.t.Helper()
	ingress := s.IngressHolder()
	if (ingress == s.Preferred(s.API.V4)) != together {
		s.t.Fatalf("the ingress VIPs are on %s, and the API VIPs on %s", ingress, s.Preferred(s.API.V4))
	}
	before := s.routedChallenges()
	s.expectCertificates()
	for i, count := range s.routedChallenges() {
		here := s.Routers[i].Node == ingress
		if (count > before[i]) != here {
			s.t.Errorf("router on %s, ingress VIPs there: %t: %d challenges", s.Routers[i], here, count-before[i])
		}
	}
	s.expectRouterAnswers()
	s.expectFindings()
}

// routedChallenges returns the number of challenges in each router's log.
func (s *testbed) routedChallenges() []int {
	s.t.Helper()
	var all []int
	for _, w := range s.Routers {
		log, err := w.RouterLog()
		must(s.t, err)
		all = append(all, strings.Count(log, "/.well-known/acme-challenge/"))
	}
	return all
}

// expectRouterAnswers sends requests without a route to the nodes' own addresses and the
// ingress VIPs, and expects the routers' answer: port 80 is unaffected.
func (s *testbed) expectRouterAnswers() {
	s.t.Helper()
	var all []netip.Addr
	for _, m := range s.ControlPlane {
		all = append(all, m.Addresses.Both()...)
	}
	if !s.idle {
		all = append(all, s.AllIngress()...)
	}
	for _, a := range all {
		text, err := s.Internet.Raw(s.t.Context(), web(a),
			"GET / HTTP/1.1\r\nHost: app.lab.test\r\nConnection: close\r\n\r\n")
		must(s.t, err)
		if status, _, _ := strings.Cut(text, "\r\n"); !strings.Contains(status, " 503 ") ||
			!strings.Contains(text, "No route") {
			s.t.Errorf("the router does not answer on %s: %.200q", a, text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// The routers of a compact cluster listen on *:80 of every master: on the one
// that holds the API VIP too.

func TestCompactRouterHere(t *testing.T) {
	expectCompact(t, lab.Layout{Compact: true}, true)
}

func TestCompactRouterElsewhere(t *testing.T) {
	expectCompact(t, lab.Layout{Compact: true, IngressOn: 1}, false)
}

func expectCompact(t *testing.T, y lab.Layout, together bool) {
	t.Helper()
	s := startSettled(t, y)
	s.expectCompactCertificates(together)
	// The VIP's own host has a router on *:80 that it could ask instead.
	holder := s.Preferred(s.API.V4)
	s.certificate(lab.Pair{V4: s.API.V4}, holder)
	s.certificate(lab.Pair{V6: s.API.V6}, holder)
}

// TestCompactIngressMoves has the ingress VIPs go from one master to another,
// and then the API VIPs to the one that has these by now.
func TestCompactIngressMoves(t *testing.T) {
	s := startSettled(t, lab.Layout{Compact: true, IngressOn: 1})
	s.expectCompactCertificates(false)
	for _, move := range []struct {
		stop     int
		together bool
	}{{1, false}, {0, true}} {
		must(t, s.Masters[move.stop].StopKeepalived(t.Context()))
		s.awaitPlacement()
		s.expectStates()
		s.expectCompactCertificates(move.together)
	}
}

// expectCompactCertificates is works, where the ingress VIPs are on the API VIPs' master or
// are not: all challenges have to come to the router that has them.
func (s *site) expectCompactCertificates(together bool) {
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
			s.t.Errorf("the router on %s, which has the ingress VIPs: %t, was asked for %d challenges", s.Routers[i], here, count-before[i])
		}
	}
	s.expectRouterAnswers()
	s.expectFindings()
}

// routedChallenges is how many challenges each router has been asked for by clients.
func (s *site) routedChallenges() []int {
	s.t.Helper()
	var all []int
	for _, w := range s.Routers {
		log, err := w.RouterLog()
		must(s.t, err)
		all = append(all, strings.Count(log, "/.well-known/acme-challenge/"))
	}
	return all
}

// expectRouterAnswers asks the masters' own addresses and the ingress VIPs for what no
// route is for, and wants the routers' own answer: that port 80 is not touched.
func (s *site) expectRouterAnswers() {
	s.t.Helper()
	var all []netip.Addr
	for _, m := range s.Masters {
		all = append(all, m.Addresses.Both()...)
	}
	if !s.idle {
		all = append(all, s.AllIngress()...)
	}
	for _, a := range all {
		text, err := s.Internet.Raw(s.t.Context(), web(a), "GET / HTTP/1.1\r\nHost: app.lab.test\r\nConnection: close\r\n\r\n")
		must(s.t, err)
		if status, _, _ := strings.Cut(text, "\r\n"); !strings.Contains(status, " 503 ") || !strings.Contains(text, "Nothing is served here") {
			s.t.Errorf("the router does not answer on %s: %.200q", a, text)
		}
	}
}

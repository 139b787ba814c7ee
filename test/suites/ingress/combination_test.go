// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// upstreamForm is a protocol that the router expects.
type upstreamForm struct {
	name          string
	upstream      string // lines of the section upstream
	proxyProtocol bool   // the router expects the PROXY protocol
	redirects     bool   // the route redirects to https
	secure        bool   // the challenge is answered on port 443
}

func upstreamForms() []upstreamForm {
	return []upstreamForm{
		{name: "http"},
		{name: "https", upstream: https, secure: true},
		{name: "redirect", redirects: true, secure: true},
		{name: "PROXY v1", upstream: "  proxyProtocol: v1\n", proxyProtocol: true},
		{name: "PROXY v2", upstream: "  proxyProtocol: v2\n", proxyProtocol: true},
		{name: "PROXY v1 and TLS", upstream: https + "  proxyProtocol: v1\n", proxyProtocol: true, secure: true},
		{name: "PROXY v2 and TLS", upstream: https + "  proxyProtocol: v2\n", proxyProtocol: true, secure: true},
		{
			name: "PROXY v2 and redirect", upstream: "  proxyProtocol: v2\n", proxyProtocol: true, redirects: true,
			secure: true,
		},
	}
}

// proxyHeaderBeforeHTTP reports whether the PROXY protocol header precedes plain HTTP. This
// is not supported through an egress proxy.
func (f upstreamForm) proxyHeaderBeforeHTTP() bool {
	return f.proxyProtocol && !strings.Contains(f.upstream, https)
}

// User and password of the egress proxy have characters that a URL must encode.
const (
	user     = "lab user"
	password = "p@ss/w:rd%21"
	userinfo = "lab%20user:p%40ss%2Fw%3Ard%2521"
)

// routeCase is a route to the ingress.
type routeCase struct {
	name   string
	direct bool
	proxy  lab.EgressOptions
	scheme string // of the proxy's URL
	user   string // of the proxy's URL
	bump   bool
}

func routeCases(t *testing.T) []routeCase {
	t.Helper()
	secure := issue(t, shared.pki.egress, lab.ServerCertificate{Names: []string{lab.EgressName}})
	return []routeCase{
		{name: "direct", direct: true},
		{name: "through a proxy", scheme: "http"},
		{name: "through a proxy with authentication", scheme: "http", user: userinfo, proxy: lab.EgressOptions{
			User:     user,
			Password: password,
		}},
		{name: "through a TLS-intercepting proxy", scheme: "http", bump: true, proxy: lab.EgressOptions{
			Bump:  shared.pki.bump,
			Trust: lab.Bundle(shared.pki.root),
		}},
		{
			name: "through a proxy over TLS with authentication", scheme: "https", user: userinfo,
			proxy: lab.EgressOptions{Secure: secure, User: user, Password: password},
		},
	}
}

// config returns the service's configuration for one combination.
func (p *fixture) config(t *testing.T, f upstreamForm, w routeCase) string {
	t.Helper()
	upstream := p.upstreamConfig(t, f.upstream, shared.pki.root)
	if w.direct {
		return p.holder().DefaultConfig() + upstream
	}
	return p.outsideVIPs() + upstream + p.egressConfig(t, p.Egress.URL(w.scheme, w.user, lab.EgressName))
}

// egressConfig returns the egress proxy settings and limits hosts to the API's name.
func (p *fixture) egressConfig(t *testing.T, url string) string {
	t.Helper()
	return fmt.Sprintf("egressProxy:\n  httpProxy: %q\n  httpsProxy: %q\n  trustedCA: %s\n  upstream: auto\nhosts: [%s]\n",
		url, url, p.bundle(t, "egress-ca.crt", shared.pki.egress, shared.pki.bump), apiName)
}

// bundle writes CA certificates in PEM into a file of the holder.
func (p *fixture) bundle(t *testing.T, name string, authorities ...*lab.Authority) string {
	t.Helper()
	return p.writeHostFile(t, name, lab.Bundle(authorities...))
}

// TestCombinations holds that each protocol over each route gets a certificate over IPv4
// and IPv6, or is rejected by name. Authentication at the egress proxy and TLS to it do not
// depend on the PROXY protocol. Where challenges pass, check finds no fault in the
// upstream route.
func TestCombinations(t *testing.T) {
	p := newFixture(t)
	for _, w := range routeCases(t) {
		t.Run(w.name, func(t *testing.T) {
			if !w.direct {
				p.startEgressProxy(t, w.proxy)
			}
			for _, f := range upstreamForms() {
				if f.proxyProtocol && w.user != "" {
					continue
				}
				t.Run(f.name, func(t *testing.T) { p.testCombination(t, f, w) })
			}
		})
	}
}

func (p *fixture) testCombination(t *testing.T, f upstreamForm, w routeCase) {
	t.Helper()
	if f.proxyHeaderBeforeHTTP() && !w.direct {
		p.expectConfigRefused(t, p.config(t, f, w), "proxyProtocol")
		return
	}
	p.restartRouter(t, lab.RouterOptions{ProxyProtocol: f.proxyProtocol, Secure: p.appsIdentity(t)})
	if f.redirects {
		redirectsToHTTPS(t, p)
	}
	s := p.serve(t, p.config(t, f, w))
	p.forEachFamily(t, func(t *testing.T, vip netip.Addr) {
		t.Helper()
		if w.bump && f.proxyProtocol {
			// The intercepting proxy expects a ClientHello and closes the connection.
			token := fmt.Sprintf("%d-through-the-middle", vip.BitLen()+100000000)
			p.requestChallenge(t, vip, token)
			c := awaitChallenge(t, s, token)
			if !slices.Contains([]string{"ingress-tls-handshake", "ingress-closed-connection", "ingress-reset-connection"},
				c.Cause) || !strings.Contains(c.Detail, "upstream.proxyProtocol") {
				t.Errorf("cause %q: %+v", c.Cause, c)
			}
			return
		}
		if _, err := p.Certificate(t.Context(), lab.Order{Name: apiName}); err != nil {
			seen, _ := s.Status(t.Context())
			t.Fatalf("%v\n%+v", err, seen.Challenges)
		}
		p.expectUpstream(t, s, f, w, vip)
	})
	if !w.bump || !f.proxyProtocol {
		p.check(t, nil)
	}
	if w.direct {
		p.expectTrace(t, f)
	}
}

// expectUpstream compares the last challenge in the service's status and in the router's
// log: the route, and the client address that the router received.
func (p *fixture) expectUpstream(t *testing.T, s *lab.Service, f upstreamForm, w routeCase, vip netip.Addr) {
	t.Helper()
	seen, err := s.Status(t.Context())
	must(t, err)
	c := seen.Challenges.Recent[len(seen.Challenges.Recent)-1]
	ingress, port := p.Ingress, uint16(80)
	if !w.direct {
		ingress = p.Outside
	}
	if f.secure {
		port = 443
	}
	if want := netip.AddrPortFrom(ingress.Like(vip), port).String(); c.Upstream != want || c.Cause != "" ||
		c.Status != 200 {
		t.Errorf("the upstream was %s, want %s: %+v", c.Upstream, want, c)
	}
	if !f.proxyProtocol {
		return
	}
	log, err := p.Worker.RouterLog()
	must(t, err)
	// HAProxy writes IPv6 addresses without brackets.
	client := strings.NewReplacer("[", "", "]", "").Replace(c.Client) + " "
	logged := slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.HasPrefix(line, client) && strings.HasSuffix(line, " to "+vip.String()+":80")
	})
	if !logged {
		t.Errorf("the router's log lacks a request from %s to %s:\n%s", c.Client, vip, log)
	}
}

// expectTrace has check follow a pending challenge. Every hop must be ok, and the upstream
// hops must end at the expected port.
func (p *fixture) expectTrace(t *testing.T, f upstreamForm) {
	t.Helper()
	must(t, p.Internet.SetName(t.Context(), apiName, p.API))
	const token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	s, err := p.Solve(t.Context(), apiName, token, token+"."+strings.Repeat("x", 43))
	must(t, err)
	t.Cleanup(func() { must(t, s.Remove(context.Background())) })
	_, err = p.Internet.GetAs(t.Context(), lab.SelfCheckAgent, "http://"+apiName+acmePath+token)
	must(t, err)
	port := map[bool]string{false: ":80", true: ":443"}[f.secure]
	for _, hop := range p.check(t, nil, "--token", token).Trace {
		if hop.Outcome != "ok" || hop.Step == "ingress" && !strings.HasSuffix(hop.To, port) {
			t.Errorf("%+v", hop)
		}
	}
}

// expectConfigRefused expects that the service rejects a configuration and names a key.
func (p *fixture) expectConfigRefused(t *testing.T, config, key string) {
	t.Helper()
	s := p.launch(t, config)
	seen, err := s.AwaitReason(t.Context(), "InvalidConfig")
	must(t, err)
	if !strings.Contains(seen.Condition().Message, key) {
		t.Errorf("the message does not name %s: %s", key, seen.Condition().Message)
	}
}

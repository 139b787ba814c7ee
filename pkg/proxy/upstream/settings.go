// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Settings are all values that a Client uses. What they refer to must not change.
type Settings struct {
	ingress.Upstream

	TrustedCAs     *TrustedCAs // verify routers; nil: none
	Egress         ingress.Egress
	MaxConnections int // of clients at a time; bounds the idle connections. 0: none is kept
}

// upstreamRoute is how an ingress address is reached. It is immutable. Changed settings create
// new routes, so that nothing that was trusted or opened before is used again.
type upstreamRoute struct {
	addr          netip.AddrPort        // of the ingress
	verifier      *verifier             // of the router's certificate; nil: no TLS
	proxyProtocol ingress.ProxyProtocol // header of each connection, for one client; such a connection is not reused
	proxy         *ingress.EgressProxy  // nil: a direct route
	proxyVerifier *verifier             // of the proxy's certificate
	handshakes    chan struct{}         // one element for each handshake in progress
}

// usesAbsoluteForm reports whether the request goes to a proxy in plain HTTP. The
// proxy then resolves the host.
func (r *upstreamRoute) usesAbsoluteForm() bool { return r.proxy != nil && r.verifier == nil }

// hasFamilyOf reports whether the address of the ingress is of the family of a VIP.
func (r *upstreamRoute) hasFamilyOf(vip netip.Addr) bool { return r.addr.Addr().Is4() == vip.Is4() }

// activeSettings are accepted Settings with the routes of requests, in the order of the
// addresses, and with the idle connections that were opened on these routes.
type activeSettings struct {
	Settings

	plain, secure []*upstreamRoute // without and with TLS; empty if no request uses them
	idle          idleConns
}

// newActiveSettings builds the verifiers and routes. Routers behind a proxy may use the
// CAs of direct routers and AdditionalCAs, because the proxy may intercept TLS. A proxy
// itself is verified by ProxyCAs alone: the CAs of the ingress do not apply to a proxy,
// nor the reverse.
func newActiveSettings(s Settings) *activeSettings {
	active := &activeSettings{Settings: s}
	active.idle.limit = min(maxIdle, (s.MaxConnections+7)/8) // rounded up: few clients need one
	direct := newVerifier(s.TrustedCAs, s.VerifyNames)
	behindProxy := newVerifier(s.TrustedCAs.extendedBy(s.Egress.AdditionalCAs.Roots), s.VerifyNames)
	ofProxies := newVerifier(NewTrustedCAs(s.Egress.ProxyCAs.Roots), nil)
	for _, addr := range s.Addresses {
		if !s.TLS {
			r := s.newRoute(addr, s.Port, ofProxies)
			if r.proxy != nil {
				r.proxyProtocol = ingress.ProxyProtocolOff // the proxy would receive it
			}
			active.plain = append(active.plain, r)
		}
		if s.TLS || s.FollowRedirects {
			r := s.newRoute(addr, s.HTTPSPort, ofProxies)
			if r.verifier = direct; r.proxy != nil {
				r.verifier = behindProxy
			}
			active.secure = append(active.secure, r)
		}
	}
	return active
}

// newRoute returns a route without TLS.
func (s *Settings) newRoute(addr netip.Addr, port uint16, proxyVerifier *verifier) *upstreamRoute {
	r := &upstreamRoute{
		addr: netip.AddrPortFrom(addr.Unmap(), port), proxyProtocol: s.ProxyProtocol,
		proxyVerifier: proxyVerifier, handshakes: make(chan struct{}, maxHandshakes),
	}
	for i := range s.Egress.Routes {
		if egress := &s.Egress.Routes[i]; netip.AddrPortFrom(egress.Ingress.Addr().Unmap(), egress.Ingress.Port()) == r.addr {
			r.proxy = &egress.Proxy
		}
	}
	return r
}

// routes returns the routes of requests. redirected means that a redirect to TLS is
// followed.
func (s *activeSettings) routes(redirected bool) []*upstreamRoute {
	if redirected || s.TLS {
		return s.secure
	}
	return s.plain
}

// inOrder returns the routes of requests to a VIP: to addresses of its family first.
func (s *activeSettings) inOrder(vip netip.Addr, redirected bool) []*upstreamRoute {
	var first, others []*upstreamRoute
	for _, r := range s.routes(redirected) {
		if r.hasFamilyOf(vip) {
			first = append(first, r)
		} else {
			others = append(others, r)
		}
	}
	return append(first, others...)
}

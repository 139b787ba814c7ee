// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// activeSettings are accepted Settings. They are immutable.
type activeSettings struct {
	plainAddrs      []netip.AddrPort       // empty if all requests use TLS
	tlsAddrs        []netip.AddrPort       // empty if no request uses TLS
	ordered         [2][2][]netip.AddrPort // of both, for VIPs of either family
	verifier        *verifier
	handshakes      map[netip.AddrPort]chan struct{} // for each of tlsAddrs, one element for each handshake in progress
	httpsPort       uint16
	followRedirects bool
	connectTimeout  time.Duration
	proxyProtocol   ingress.ProxyProtocol
	egress          *egressRoutes
}

// newActiveSettings keeps the parts of before that s does not change.
func newActiveSettings(s Settings, before *activeSettings) *activeSettings {
	active := &activeSettings{httpsPort: s.HTTPSPort, followRedirects: s.FollowRedirects, connectTimeout: s.ConnectTimeout, proxyProtocol: s.ProxyProtocol, handshakes: make(map[netip.AddrPort]chan struct{})}
	for _, addr := range s.Addresses {
		addr = addr.Unmap()
		if !s.TLS {
			active.plainAddrs = append(active.plainAddrs, netip.AddrPortFrom(addr, s.Port))
		}
		if s.TLS || s.FollowRedirects {
			at := netip.AddrPortFrom(addr, s.HTTPSPort)
			active.tlsAddrs = append(active.tlsAddrs, at)
			active.handshakes[at] = make(chan struct{}, maxHandshakes)
		}
	}
	for i, addrs := range [...][]netip.AddrPort{active.plainAddrs, active.tlsAddrs} {
		active.ordered[i] = [2][]netip.AddrPort{familyFirst(addrs, true), familyFirst(addrs, false)}
	}
	active.verifier = before.verifier
	if active.verifier == nil || !active.verifier.equals(s.TrustedCAs, s.VerifyNames) || !slices.Equal(active.plainAddrs, before.plainAddrs) || !slices.Equal(active.tlsAddrs, before.tlsAddrs) {
		active.verifier = newVerifier(s.TrustedCAs, s.VerifyNames)
	}
	active.egress = before.egress
	if active.verifier != before.verifier || !active.egress.equals(s.Egress) {
		active.egress = newEgressRoutes(s.Egress, active.verifier)
	}
	return active
}

// addrs returns the addresses for requests. redirected means that a redirect to TLS
// is followed.
func (s *activeSettings) addrs(redirected bool) []netip.AddrPort {
	if redirected || s.plainAddrs == nil {
		return s.tlsAddrs
	}
	return s.plainAddrs
}

// inOrder returns the addresses for requests to a VIP: those of its family first.
func (s *activeSettings) inOrder(vip netip.Addr, redirected bool) []netip.AddrPort {
	family, tls := 0, 0
	if !vip.Is4() {
		family = 1
	}
	if redirected || s.plainAddrs == nil {
		tls = 1
	}
	return s.ordered[tls][family]
}

// familyFirst returns addresses with those of a family first, otherwise in their order.
func familyFirst(addrs []netip.AddrPort, ipv4 bool) []netip.AddrPort {
	sorted := slices.Clone(addrs)
	slices.SortStableFunc(sorted, func(a, b netip.AddrPort) int {
		switch {
		case a.Addr().Is4() == b.Addr().Is4():
			return 0
		case a.Addr().Is4() == ipv4:
			return -1
		default:
			return 1
		}
	})
	return sorted
}

// routeTo returns the route of a request to one of the addresses.
func (s *activeSettings) routeTo(addr netip.AddrPort, request *Request, redirected bool) upstreamRoute {
	route := upstreamRoute{addr: addr, proxyProtocol: s.proxyProtocol, proxy: s.egress.proxyFor(addr)}
	switch {
	case redirected || s.plainAddrs == nil:
		route.verifier, route.serverName = s.verifierFor(route.proxy), request.Host
	case route.proxy != nil:
		route.proxyProtocol = ingress.ProxyProtocolOff // the proxy would receive it
	}
	return route
}

// verifierFor returns the verifier of an ingress behind a proxy, or of a direct one
// for nil.
func (s *activeSettings) verifierFor(proxy *proxyHop) *verifier {
	if proxy != nil {
		return proxy.egress.verifier
	}
	return s.verifier
}

// handshakeSlots returns the channel that bounds the handshakes of a route, and nil
// for a route without TLS.
func (s *activeSettings) handshakeSlots(route upstreamRoute) chan struct{} {
	switch {
	case route.proxy != nil:
		return route.proxy.handshakes
	case route.verifier == nil:
		return nil
	}
	return s.handshakes[route.addr]
}

// includes reports whether the settings still use a route.
func (s *activeSettings) includes(route upstreamRoute) bool {
	if route.proxy != s.egress.proxyFor(route.addr) || route.proxyProtocol != s.proxyProtocol && !route.usesAbsoluteForm() {
		return false
	}
	if route.verifier != nil {
		return route.verifier == s.verifierFor(route.proxy) && slices.Contains(s.tlsAddrs, route.addr)
	}
	return slices.Contains(s.plainAddrs, route.addr)
}

// proxyHop is an egress proxy on a route. Other egress settings create other hops,
// so that a connection through an old hop is not reused.
type proxyHop struct {
	ingress.EgressProxy
	egress     *egressRoutes
	handshakes chan struct{} // one element for each handshake in progress
}

// egressRoutes is one accepted egress decision with its trust. It is immutable.
type egressRoutes struct {
	ingress.Egress
	byIngress     map[netip.AddrPort]*proxyHop
	verifier      *verifier // of routers behind a proxy, which may intercept TLS
	proxyVerifier *verifier // of the proxies themselves
}

// newEgressRoutes builds the verifiers. Routers behind a proxy may use the CAs of
// direct routers and e.AdditionalCAs. A proxy itself is verified by e.ProxyCAs
// alone: the CAs of the ingress do not apply to a proxy, nor the reverse.
func newEgressRoutes(e ingress.Egress, directVerifier *verifier) *egressRoutes {
	routes := &egressRoutes{Egress: e, byIngress: make(map[netip.AddrPort]*proxyHop, len(e.Routes))}
	if len(e.Routes) == 0 {
		return routes
	}
	routes.verifier = newVerifier(directVerifier.trusted.extendedBy(e.AdditionalCAs.Roots), directVerifier.names)
	routes.proxyVerifier = newVerifier(NewTrustedCAs(e.ProxyCAs.Roots), nil)
	for _, r := range e.Routes {
		routes.byIngress[netip.AddrPortFrom(r.Ingress.Addr().Unmap(), r.Ingress.Port())] = &proxyHop{r.Proxy, routes, make(chan struct{}, maxHandshakes)}
	}
	return routes
}

// equals reports whether e would give the same routes.
func (r *egressRoutes) equals(e ingress.Egress) bool { return r != nil && r.Equal(e) }

// proxyFor returns the proxy on the route to an address, and nil for a direct
// route.
func (r *egressRoutes) proxyFor(addr netip.AddrPort) *proxyHop {
	if r == nil || len(r.byIngress) == 0 {
		return nil
	}
	return r.byIngress[addr]
}

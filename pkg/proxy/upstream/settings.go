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
	plainAddrs      []netip.AddrPort // empty if all requests use TLS
	tlsAddrs        []netip.AddrPort // empty if no request uses TLS
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

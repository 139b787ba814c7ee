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
	r := &activeSettings{httpsPort: s.HTTPSPort, followRedirects: s.FollowRedirects, connectTimeout: s.ConnectTimeout, proxyProtocol: s.ProxyProtocol, handshakes: make(map[netip.AddrPort]chan struct{})}
	for _, addr := range s.Addresses {
		addr = addr.Unmap()
		if !s.TLS {
			r.plainAddrs = append(r.plainAddrs, netip.AddrPortFrom(addr, s.Port))
		}
		if s.TLS || s.FollowRedirects {
			at := netip.AddrPortFrom(addr, s.HTTPSPort)
			r.tlsAddrs = append(r.tlsAddrs, at)
			r.handshakes[at] = make(chan struct{}, maxHandshakes)
		}
	}
	r.verifier = before.verifier
	if r.verifier == nil || !r.verifier.equals(s.TrustedCAs, s.VerifyNames) || !slices.Equal(r.plainAddrs, before.plainAddrs) || !slices.Equal(r.tlsAddrs, before.tlsAddrs) {
		r.verifier = newVerifier(s.TrustedCAs, s.VerifyNames)
	}
	r.egress = before.egress
	if r.verifier != before.verifier || !r.egress.equals(s.Egress) {
		r.egress = newEgressRoutes(s.Egress, r.verifier)
	}
	return r
}

// addrs returns the addresses for requests. redirected means that a redirect to TLS
// is followed.
func (r *activeSettings) addrs(redirected bool) []netip.AddrPort {
	if redirected || r.plainAddrs == nil {
		return r.tlsAddrs
	}
	return r.plainAddrs
}

// routeTo returns the route of a request to one of the addresses.
func (r *activeSettings) routeTo(addr netip.AddrPort, asked *Request, redirected bool) upstreamRoute {
	w := upstreamRoute{addr: addr, proxyProtocol: r.proxyProtocol, proxy: r.egress.proxyFor(addr)}
	switch {
	case redirected || r.plainAddrs == nil:
		w.verifier, w.serverName = r.verifierFor(w.proxy), asked.Host
	case w.proxy != nil:
		w.proxyProtocol = ingress.ProxyProtocolOff // the proxy would receive it
	}
	return w
}

// verifierFor returns the verifier of an ingress behind a proxy, or of a direct one
// for nil.
func (r *activeSettings) verifierFor(via *proxyHop) *verifier {
	if via != nil {
		return via.egress.verifier
	}
	return r.verifier
}

// handshakeSlots returns the channel that bounds the handshakes of a route, and nil
// for a route without TLS.
func (r *activeSettings) handshakeSlots(w upstreamRoute) chan struct{} {
	switch {
	case w.proxy != nil:
		return w.proxy.handshakes
	case w.verifier == nil:
		return nil
	}
	return r.handshakes[w.addr]
}

// includes reports whether the settings still use the route w.
func (r *activeSettings) includes(w upstreamRoute) bool {
	if w.proxy != r.egress.proxyFor(w.addr) || w.proxyProtocol != r.proxyProtocol && !w.usesAbsoluteForm() {
		return false
	}
	if w.verifier != nil {
		return w.verifier == r.verifierFor(w.proxy) && slices.Contains(r.tlsAddrs, w.addr)
	}
	return slices.Contains(r.plainAddrs, w.addr)
}

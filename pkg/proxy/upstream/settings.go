// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"slices"
	"time"
)

// activeSettings is one accepted Settings. It is not changed any more.
type activeSettings struct {
	plainAddrs      []netip.AddrPort // none when all is asked by TLS
	tlsAddrs        []netip.AddrPort // none when nothing is
	verifier        *verifier
	handshakes      map[netip.AddrPort]chan struct{} // for handshakes with each of secure
	httpsPort       uint16
	followRedirects bool
	connectTimeout  time.Duration
	proxyProtocol   ProxyProtocol
	egress          *egressRoutes
}

// newActiveSettings keeps what of before is right under s, too.
func newActiveSettings(s Settings, before *activeSettings) *activeSettings {
	r := &activeSettings{httpsPort: s.HTTPSPort, followRedirects: s.FollowRedirects, connectTimeout: s.ConnectTimeout, proxyProtocol: s.ProxyProtocol, handshakes: make(map[netip.AddrPort]chan struct{})}
	for _, addr := range s.Ingress {
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

// addrs are those that requests go to; redirected says that one is followed there.
func (r *activeSettings) addrs(redirected bool) []netip.AddrPort {
	if redirected || r.plainAddrs == nil {
		return r.tlsAddrs
	}
	return r.plainAddrs
}

// routeTo is how a request goes to one of the addresses.
func (r *activeSettings) routeTo(addr netip.AddrPort, asked *Request, redirected bool) upstreamRoute {
	w := upstreamRoute{addr: addr, proxyProtocol: r.proxyProtocol, proxy: r.egress.proxyFor(addr)}
	switch {
	case redirected || r.plainAddrs == nil:
		w.verifier, w.serverName = r.verifierFor(w.proxy), asked.Host
	case w.proxy != nil:
		w.proxyProtocol = ProxyProtocolOff // the proxy would get it
	}
	return w
}

// verifierFor is how an ingress is verified that is reached through a proxy, or
// directly.
func (r *activeSettings) verifierFor(via *proxyHop) *verifier {
	if via != nil {
		return via.egress.verifier
	}
	return r.verifier
}

// handshakeSlots is what bounds the handshakes on the way w; nil where there are none.
func (r *activeSettings) handshakeSlots(w upstreamRoute) chan struct{} {
	switch {
	case w.proxy != nil:
		return w.proxy.handshakes
	case w.verifier == nil:
		return nil
	}
	return r.handshakes[w.addr]
}

// includes reports whether requests still go the way w.
func (r *activeSettings) includes(w upstreamRoute) bool {
	if w.proxy != r.egress.proxyFor(w.addr) || w.proxyProtocol != r.proxyProtocol && !w.usesAbsoluteForm() {
		return false
	}
	if w.verifier != nil {
		return w.verifier == r.verifierFor(w.proxy) && slices.Contains(r.tlsAddrs, w.addr)
	}
	return slices.Contains(r.plainAddrs, w.addr)
}

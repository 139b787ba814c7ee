// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"slices"
	"time"
)

// route is one accepted Settings. It is not changed any more.
type route struct {
	plain     []netip.AddrPort // none when all is asked by TLS
	secure    []netip.AddrPort // none when nothing is
	verifier  *verifier
	rooms     map[netip.AddrPort]chan struct{} // for handshakes with each of secure
	httpsPort uint16
	follow    bool
	connect   time.Duration
	header    ProxyProtocol
	egress    *egress
}

// newRoute keeps what of before is right under s, too.
func newRoute(s Settings, before *route) *route {
	r := &route{httpsPort: s.HTTPSPort, follow: s.FollowRedirects, connect: s.ConnectTimeout, header: s.ProxyProtocol, rooms: make(map[netip.AddrPort]chan struct{})}
	for _, addr := range s.Ingress {
		addr = addr.Unmap()
		if !s.Secure {
			r.plain = append(r.plain, netip.AddrPortFrom(addr, s.Port))
		}
		if s.Secure || s.FollowRedirects {
			at := netip.AddrPortFrom(addr, s.HTTPSPort)
			r.secure = append(r.secure, at)
			r.rooms[at] = make(chan struct{}, maxHandshakes)
		}
	}
	r.verifier = before.verifier
	if r.verifier == nil || !r.verifier.is(s.Trust, s.VerifyNames) || !slices.Equal(r.plain, before.plain) || !slices.Equal(r.secure, before.secure) {
		r.verifier = newVerifier(s.Trust, s.VerifyNames)
	}
	r.egress = before.egress
	if r.verifier != before.verifier || !r.egress.is(s.Egress) {
		r.egress = newEgress(s.Egress, r.verifier)
	}
	return r
}

// addrs are those that requests go to; redirected says that one is followed there.
func (r *route) addrs(redirected bool) []netip.AddrPort {
	if redirected || r.plain == nil {
		return r.secure
	}
	return r.plain
}

// way is how a request goes to one of the addresses.
func (r *route) way(addr netip.AddrPort, asked *Request, redirected bool) way {
	w := way{addr: addr, header: r.header, via: r.egress.via(addr)}
	switch {
	case redirected || r.plain == nil:
		w.verifier, w.name = r.verifierFor(w.via), asked.Host
	case w.via != nil:
		w.header = ProxyProtocolOff // the proxy would get it
	}
	return w
}

// verifierFor is how an ingress is verified that is reached through a proxy, or
// directly.
func (r *route) verifierFor(via *hop) *verifier {
	if via != nil {
		return via.egress.verifier
	}
	return r.verifier
}

// room is what bounds the handshakes on the way w; nil where there are none.
func (r *route) room(w way) chan struct{} {
	switch {
	case w.via != nil:
		return w.via.room
	case w.verifier == nil:
		return nil
	}
	return r.rooms[w.addr]
}

// leads reports whether requests still go the way w.
func (r *route) leads(w way) bool {
	if w.via != r.egress.via(w.addr) || w.header != r.header && !w.absolute() {
		return false
	}
	if w.verifier != nil {
		return w.verifier == r.verifierFor(w.via) && slices.Contains(r.secure, w.addr)
	}
	return slices.Contains(r.plain, w.addr)
}

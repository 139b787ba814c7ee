// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Egress says which ingress addresses are reached through an egress proxy, all
// others being reached directly.
type Egress struct {
	Through []Through
	Proxies [][]byte // CAs of the proxies' own certificates, DER
	Beyond  [][]byte // CAs besides those of an ingress that is reached directly: a proxy may look into TLS
}

// Through is one of these addresses, with the port of what is asked there: plain
// HTTP may go another way than TLS.
type Through struct {
	Ingress netip.AddrPort
	Proxy   EgressProxy
}

// EgressProxy is where a proxy is and how it is spoken to.
type EgressProxy struct {
	Name          string // without credentials, in diagnoses, and for TLS to it
	Secure        bool   // TLS to the proxy itself
	Addrs         []netip.AddrPort
	Authorization Secret
}

// String names the proxy to an operator.
func (p EgressProxy) String() string {
	if len(p.Addrs) == 0 {
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Addrs[0].Port())))
}

func (p EgressProxy) equal(other EgressProxy) bool {
	return p.Name == other.Name && p.Secure == other.Secure && slices.Equal(p.Addrs, other.Addrs) && p.Authorization.Equal(other.Authorization)
}

func (e Egress) equal(other Egress) bool {
	return slices.EqualFunc(e.Proxies, other.Proxies, bytes.Equal) && slices.EqualFunc(e.Beyond, other.Beyond, bytes.Equal) &&
		slices.EqualFunc(e.Through, other.Through, func(a, b Through) bool { return a.Ingress == b.Ingress && a.Proxy.equal(b.Proxy) })
}

// hop is a proxy on the way, of the Egress that is in force. Another Egress makes
// other hops, so that a way through one of the old is no way any more.
type hop struct {
	EgressProxy
	egress *egress
	room   chan struct{} // has one for each handshake that is under way
}

// egress is one accepted Egress, with one trust. It is not changed any more.
type egress struct {
	Egress
	through  map[netip.AddrPort]*hop
	verifier *verifier // of routers that are reached through a proxy, which may have looked into TLS
	proxies  *verifier // of the proxies themselves
}

// newEgress trusts, beyond a proxy, what direct does and the roots of e for that.
// A proxy itself has a certificate of its own authorities: the ingress's say nothing
// about it, nor its about the ingress.
func newEgress(e Egress, direct *verifier) *egress {
	made := &egress{Egress: e, through: make(map[netip.AddrPort]*hop, len(e.Through))}
	if len(e.Through) == 0 {
		return made
	}
	made.verifier = newVerifier(direct.trust.with(e.Beyond), direct.names)
	made.proxies = newVerifier(NewTrust(e.Proxies), nil)
	for _, t := range e.Through {
		made.through[netip.AddrPortFrom(t.Ingress.Addr().Unmap(), t.Ingress.Port())] = &hop{t.Proxy, made, make(chan struct{}, maxHandshakes)}
	}
	return made
}

// is reports whether it is what e makes.
func (g *egress) is(e Egress) bool { return g != nil && g.equal(e) }

// via is the proxy through which an address is reached; nil when it is reached
// directly.
func (g *egress) via(addr netip.AddrPort) *hop {
	if g == nil || len(g.through) == 0 {
		return nil
	}
	return g.through[addr]
}

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
	Routes        []EgressRoute
	ProxyCAs      [][]byte // CAs of the proxies' own certificates, DER
	AdditionalCAs [][]byte // CAs besides those of an ingress that is reached directly: a proxy may look into TLS
}

// EgressRoute is one of these addresses, with the port of what is asked there: plain
// HTTP may go another way than TLS.
type EgressRoute struct {
	Ingress netip.AddrPort
	Proxy   EgressProxy
}

// EgressProxy is where a proxy is and how it is spoken to.
type EgressProxy struct {
	Name          string // without credentials, in diagnoses, and for TLS to it
	TLS           bool   // TLS to the proxy itself
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
	return p.Name == other.Name && p.TLS == other.TLS && slices.Equal(p.Addrs, other.Addrs) && p.Authorization.Equal(other.Authorization)
}

func (e Egress) equal(other Egress) bool {
	return slices.EqualFunc(e.ProxyCAs, other.ProxyCAs, bytes.Equal) && slices.EqualFunc(e.AdditionalCAs, other.AdditionalCAs, bytes.Equal) &&
		slices.EqualFunc(e.Routes, other.Routes, func(a, b EgressRoute) bool { return a.Ingress == b.Ingress && a.Proxy.equal(b.Proxy) })
}

// proxyHop is a proxy on the way, of the Egress that is in force. Another Egress makes
// other hops, so that a way through one of the old is no way any more.
type proxyHop struct {
	EgressProxy
	egress     *egressRoutes
	handshakes chan struct{} // has one for each handshake that is under way
}

// egressRoutes is one accepted Egress, with one trust. It is not changed any more.
type egressRoutes struct {
	Egress
	byIngress     map[netip.AddrPort]*proxyHop
	verifier      *verifier // of routers that are reached through a proxy, which may have looked into TLS
	proxyVerifier *verifier // of the proxies themselves
}

// newEgressRoutes trusts, beyond a proxy, what direct does and the roots of e for that.
// A proxy itself has a certificate of its own authorities: the ingress's say nothing
// about it, nor its about the ingress.
func newEgressRoutes(e Egress, direct *verifier) *egressRoutes {
	made := &egressRoutes{Egress: e, byIngress: make(map[netip.AddrPort]*proxyHop, len(e.Routes))}
	if len(e.Routes) == 0 {
		return made
	}
	made.verifier = newVerifier(direct.trusted.extendedBy(e.AdditionalCAs), direct.names)
	made.proxyVerifier = newVerifier(NewTrustedCAs(e.ProxyCAs), nil)
	for _, t := range e.Routes {
		made.byIngress[netip.AddrPortFrom(t.Ingress.Addr().Unmap(), t.Ingress.Port())] = &proxyHop{t.Proxy, made, make(chan struct{}, maxHandshakes)}
	}
	return made
}

// equals reports whether it is what e makes.
func (g *egressRoutes) equals(e Egress) bool { return g != nil && g.equal(e) }

// proxy is the proxy through which an address is reached; nil when it is reached
// directly.
func (g *egressRoutes) proxyFor(addr netip.AddrPort) *proxyHop {
	if g == nil || len(g.byIngress) == 0 {
		return nil
	}
	return g.byIngress[addr]
}

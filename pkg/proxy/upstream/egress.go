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

// proxyHop is an egress proxy on a route. Other egress settings create other hops,
// so that a connection through an old hop is not reused.
type proxyHop struct {
	EgressProxy
	egress     *egressRoutes
	handshakes chan struct{} // one element for each handshake in progress
}

// egressRoutes is one accepted egress decision with its trust. It is immutable.
type egressRoutes struct {
	Egress
	byIngress     map[netip.AddrPort]*proxyHop
	verifier      *verifier // of routers behind a proxy, which may intercept TLS
	proxyVerifier *verifier // of the proxies themselves
}

// newEgressRoutes builds the verifiers. Routers behind a proxy may use the CAs of
// direct routers and e.AdditionalCAs. A proxy itself is verified by e.ProxyCAs
// alone: the CAs of the ingress do not apply to a proxy, nor the reverse.
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

// equals reports whether e would give the same routes.
func (g *egressRoutes) equals(e Egress) bool { return g != nil && g.equal(e) }

// proxyFor returns the proxy on the route to an address, and nil for a direct
// route.
func (g *egressRoutes) proxyFor(addr netip.AddrPort) *proxyHop {
	if g == nil || len(g.byIngress) == 0 {
		return nil
	}
	return g.byIngress[addr]
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

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
func newEgressRoutes(e ingress.Egress, direct *verifier) *egressRoutes {
	made := &egressRoutes{Egress: e, byIngress: make(map[netip.AddrPort]*proxyHop, len(e.Routes))}
	if len(e.Routes) == 0 {
		return made
	}
	made.verifier = newVerifier(direct.trusted.extendedBy(e.AdditionalCAs.Roots), direct.names)
	made.proxyVerifier = newVerifier(NewTrustedCAs(e.ProxyCAs.Roots), nil)
	for _, t := range e.Routes {
		made.byIngress[netip.AddrPortFrom(t.Ingress.Addr().Unmap(), t.Ingress.Port())] = &proxyHop{t.Proxy, made, make(chan struct{}, maxHandshakes)}
	}
	return made
}

// equals reports whether e would give the same routes.
func (g *egressRoutes) equals(e ingress.Egress) bool { return g != nil && g.Equal(e) }

// proxyFor returns the proxy on the route to an address, and nil for a direct
// route.
func (g *egressRoutes) proxyFor(addr netip.AddrPort) *proxyHop {
	if g == nil || len(g.byIngress) == 0 {
		return nil
	}
	return g.byIngress[addr]
}

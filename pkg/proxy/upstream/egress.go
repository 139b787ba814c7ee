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

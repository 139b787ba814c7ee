// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"net/url"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// ProxiedAddress is an ingress address with its port, and the proxy on its route. The
// URL may contain credentials.
type ProxiedAddress struct {
	Ingress netip.AddrPort
	Proxy   *url.URL
}

// ProxiedAddresses returns the ingress addresses that are reached through a proxy.
// automatic is the part of noProxy that the host adds.
func ProxiedAddresses(c config.Config, accepted ProxySettings, addrs []netip.Addr, automatic []string) (all []ProxiedAddress) {
	if c.EgressProxy.Upstream != config.EgressAuto {
		return nil
	}
	for _, addr := range addrs {
		for _, port := range upstreamPorts(c.Upstream) {
			at := netip.AddrPortFrom(addr, port.number)
			if proxy := accepted.ProxyForIngress(at, port.tls, automatic); proxy != nil {
				all = append(all, ProxiedAddress{at, proxy})
			}
		}
	}
	return all
}

type upstreamPort struct {
	number uint16
	tls    bool
}

// upstreamPorts returns the ports of the ingress that requests may use: for HTTP, and
// for TLS or the redirects to it.
func upstreamPorts(u config.Upstream) []upstreamPort {
	https := upstreamPort{u.HTTPSPort, true}
	switch {
	case u.Scheme == config.SchemeHTTPS:
		return []upstreamPort{https}
	case u.FollowRedirects && u.HTTPSPort != u.Port:
		return []upstreamPort{{u.Port, false}, https}
	default:
		return []upstreamPort{{u.Port, false}}
	}
}

// Decide returns the egress decision for the proxied addresses. addrs returns the
// addresses of a proxy's name. A proxy without addresses fails its requests, which
// never bypass it. system are the CAs of this host.
func Decide(proxied []ProxiedAddress, addrs func(name string) []netip.Addr, accepted Configuration, system [][]byte) (e ingress.Egress) {
	if len(proxied) == 0 {
		return e
	}
	https := false
	for _, p := range proxied {
		proxy := ingress.EgressProxy{Name: p.Proxy.Hostname(), TLS: p.Proxy.Scheme == "https", Authorization: ingress.NewSecret(Authorization(p.Proxy))}
		https = https || proxy.TLS
		for _, addr := range addrs(proxy.Name) {
			proxy.Addrs = append(proxy.Addrs, netip.AddrPortFrom(addr, Port(p.Proxy)))
		}
		e.Routes = append(e.Routes, ingress.EgressRoute{Ingress: p.Ingress, Proxy: proxy})
	}
	// A proxy that intercepts TLS has a CA of the administrator. Public CAs, which may
	// have issued the proxy's own certificate, must not verify an ingress for which the
	// administrator trusts other CAs.
	e.AdditionalCAs = ingress.CABundle{Roots: accepted.Roots, Description: accepted.RootsDescription}
	if https {
		e.ProxyCAs = e.AdditionalCAs.Union(ingress.CABundle{Roots: system, Description: ingress.DescribeCAs(len(system), "this host")})
	}
	return e
}

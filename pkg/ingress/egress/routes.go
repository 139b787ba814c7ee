// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// ProxiedAddress is an ingress address with its port, and the proxy on its route. The
// URL may contain credentials.
type ProxiedAddress struct {
	Ingress netip.AddrPort
	Proxy   *url.URL
}

// ProxiedAddresses returns the ingress addresses that are reached through a proxy. automatic is
// the part of noProxy that the host adds. The address decides, not the requested name: that is
// the API's name, which resolves to this host.
func ProxiedAddresses(
	c config.Config, accepted ProxySettings, addrs []netip.Addr, automatic []string,
) (all []ProxiedAddress) {
	if c.EgressProxy.Upstream != config.EgressAuto {
		return nil
	}
	for _, addr := range addrs {
		for _, target := range upstreamTargets(c.Upstream, addr) {
			u := &url.URL{Scheme: string(target.scheme), Host: target.addr.String()}
			if proxy := accepted.ProxyFor(u, automatic); proxy != nil {
				all = append(all, ProxiedAddress{target.addr, proxy})
			}
		}
	}
	return all
}

type upstreamTarget struct {
	scheme config.Scheme
	addr   netip.AddrPort
}

// upstreamTargets returns the ports of the ingress that requests may use: for HTTP, and
// for TLS or the redirects to it.
func upstreamTargets(u config.Upstream, addr netip.Addr) []upstreamTarget {
	http := upstreamTarget{config.SchemeHTTP, netip.AddrPortFrom(addr, u.Port)}
	https := upstreamTarget{config.SchemeHTTPS, netip.AddrPortFrom(addr, u.HTTPSPort)}
	switch {
	case u.Scheme == config.SchemeHTTPS:
		return []upstreamTarget{https}
	case u.FollowRedirects && u.HTTPSPort != u.Port:
		return []upstreamTarget{http, https}
	default:
		return []upstreamTarget{http}
	}
}

// Decide returns the egress decision for the proxied addresses. addrs returns the
// addresses of a proxy's name. A proxy without addresses fails its requests, which
// never bypass it. system are the CAs of this host.
func Decide(
	proxied []ProxiedAddress, addrs func(name string) []netip.Addr, accepted Configuration, system [][]byte,
) (e ingress.Egress) {
	if len(proxied) == 0 {
		return e
	}
	https := false
	for _, p := range proxied {
		proxy := ingress.EgressProxy{
			Name: p.Proxy.Hostname(), TLS: p.Proxy.Scheme == "https", Authorization: ingress.NewSecret(Authorization(p.Proxy)),
		}
		https = https || proxy.TLS
		for _, addr := range addrs(proxy.Name) {
			proxy.Addrs = append(proxy.Addrs, netip.AddrPortFrom(addr, Port(p.Proxy)))
		}
		e.Routes = append(e.Routes, ingress.EgressRoute{Ingress: p.Ingress, Proxy: proxy})
	}
	// A proxy that intercepts TLS uses a CA of the administrator. Public CAs, which may have
	// issued the proxy's own certificate, must not verify an ingress for which the
	// administrator trusts other CAs.
	e.AdditionalCAs = ingress.CABundle{Roots: accepted.Roots, Description: accepted.RootsDescription}
	if https {
		host := ingress.CABundle{Roots: system, Description: ingress.DescribeCAs(len(system), "this host")}
		e.ProxyCAs = e.AdditionalCAs.Union(host)
	}
	return e
}

// maxSubnets limits the host's subnets in a list.
const maxSubnets = 256

// AutomaticNoProxy returns the automatic part of the no-proxy list of a host with these VIPs and
// subnets. clusterDomain is the domain after "api." and "api-int."; empty if unknown. OpenShift adds the
// same entries (cluster-network-operator, pkg/util/proxyconfig/no_proxy.go). The API's name is not
// included: its challenges come from outside, so self checks must use the administrator's settings.
func AutomaticNoProxy(c config.VIPs, api, ingress []netip.Addr, subnets []netip.Prefix, clusterDomain string) []string {
	list := []string{"localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local"}
	if clusterDomain != "" {
		list = append(list, "api-int."+clusterDomain)
	}
	// An ingress address of the configuration can be anywhere. A VIP of keepalived is in the
	// network of the cluster, and a VIP that kube-vip announces by BGP is on its hosts.
	if !c.Explicit() || c.Management == config.ManagementBGP {
		api = slices.Concat(api, ingress)
	}
	var found []string
	for _, vip := range api {
		found = append(found, vip.String())
	}
	for _, subnet := range subnets[:min(len(subnets), maxSubnets)] {
		if isHostSubnet(subnet) {
			found = append(found, subnet.Masked().String())
		}
	}
	slices.Sort(found)
	return append(list, slices.Compact(found)...)
}

// isHostSubnet excludes prefixes that do not describe a subnet of the host: a prefix of
// length 0 matches everything, and a single address is not a subnet.
func isHostSubnet(p netip.Prefix) bool {
	return p.IsValid() && p.Bits() > 0 && !p.IsSingleIP() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast()
}

// EffectiveNoProxy returns the whole active no-proxy list.
func (s ProxySettings) EffectiveNoProxy(automatic []string) string {
	all := slices.Clone(automatic)
	for entry := range strings.SplitSeq(s.NoProxy, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return strings.Join(all, ",")
}

// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// EgressRoute is an ingress address and port, and the proxy through which it is reached. The
// URL may hold credentials.
type EgressRoute struct {
	Ingress netip.AddrPort
	Proxy   *url.URL
}

// EgressRoutes are all that lead through a proxy. automatic is what never does.
func EgressRoutes(c config.Config, accepted egress.ProxySettings, ingress []netip.Addr, automatic []string) (all []EgressRoute) {
	if c.EgressProxy.Upstream != config.EgressAuto {
		return nil
	}
	for _, addr := range ingress {
		for _, port := range upstreamPorts(c.Upstream) {
			at := netip.AddrPortFrom(addr, port.number)
			if proxy := accepted.ProxyForIngress(at, port.tls, automatic); proxy != nil {
				all = append(all, EgressRoute{at, proxy})
			}
		}
	}
	return all
}

type upstreamPort struct {
	number uint16
	tls    bool
}

// upstreamPorts are those of the ingress that may be connected to: for http, and for https
// what a redirect leads to.
func upstreamPorts(u config.Upstream) []upstreamPort {
	secure := upstreamPort{u.HTTPSPort, true}
	switch {
	case u.Scheme == config.SchemeHTTPS:
		return []upstreamPort{secure}
	case u.FollowRedirects && u.HTTPSPort != u.Port:
		return []upstreamPort{{u.Port, false}, secure}
	default:
		return []upstreamPort{{u.Port, false}}
	}
}

// Egress is what goes through which proxy. addrs are the addresses of a proxy's name:
// without any nothing goes directly that is to go through it. system are the CAs
// of this host.
func Egress(ways []EgressRoute, addrs func(name string) []netip.Addr, accepted egress.Configuration, system [][]byte) (o protocol.EgressRoutes) {
	if len(ways) == 0 {
		return o
	}
	secure := false
	for _, w := range ways {
		p := protocol.EgressProxy{Name: w.Proxy.Hostname(), TLS: w.Proxy.Scheme == "https", Authorization: egress.Authorization(w.Proxy)}
		secure = secure || p.TLS
		for _, addr := range addrs(p.Name) {
			p.Addrs = append(p.Addrs, netip.AddrPortFrom(addr, egress.Port(w.Proxy)))
		}
		o.Routes = append(o.Routes, protocol.EgressRoute{Ingress: w.Ingress, Proxy: p})
	}
	// A proxy that looks into TLS has a CA of the admin's. The public ones, by which a
	// proxy may have its own certificate, do not vouch for an ingress for which the
	// admin trusts others.
	o.AdditionalCAs = protocol.CABundle{Roots: accepted.Roots, Description: accepted.RootsDescription}
	if secure {
		o.ProxyCAs = mergeTrust(o.AdditionalCAs, protocol.CABundle{Roots: system, Description: DescribeCAs(len(system), "this host")})
	}
	return o
}

// mergeTrust is the trust in a and in what of b is not in a.
func mergeTrust(a, b protocol.CABundle) protocol.CABundle {
	more := slices.DeleteFunc(slices.Clone(b.Roots), func(der []byte) bool {
		return slices.ContainsFunc(a.Roots, func(has []byte) bool { return bytes.Equal(has, der) })
	})
	switch {
	case len(more) == 0:
		return a
	case len(a.Roots) == 0:
		return b
	default:
		return protocol.CABundle{Roots: slices.Concat(a.Roots, more), Description: a.Description + " and " + b.Description}
	}
}

// DescribeCAs says for a diagnosis what is trusted: a number of CAs of whose they are.
// It is empty for none.
func DescribeCAs(number int, whose string) string {
	switch number {
	case 0:
		return ""
	case 1:
		return "the 1 CA of " + whose
	default:
		return fmt.Sprintf("the %d CAs of %s", number, whose)
	}
}

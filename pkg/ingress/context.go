// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// CauseContext returns what the sender of these settings has about a failure. Nil
// values are unknown.
func CauseContext(u *Upstream, cas *CABundle, e *Egress) cause.Context {
	known := cause.Context{}
	if u != nil {
		known.VerifyNames = u.VerifyNames
	}
	if cas != nil {
		known.TrustedCAs = cas.Description
	}
	if e == nil || len(e.Routes) == 0 {
		return known
	}
	known.ProxyCAs = e.ProxyCAs.Description
	if len(e.AdditionalCAs.Roots) > 0 {
		known.AdditionalCAs = e.AdditionalCAs.Description
	}
	known.EgressProxies = make(map[netip.AddrPort]cause.EgressProxy, len(e.Routes))
	for _, r := range e.Routes {
		p := cause.EgressProxy{Name: r.Proxy.Name}
		if len(r.Proxy.Addrs) > 0 {
			p.Port = r.Proxy.Addrs[0].Port()
		}
		known.EgressProxies[netip.AddrPortFrom(r.Ingress.Addr().Unmap(), r.Ingress.Port())] = p
	}
	return known
}

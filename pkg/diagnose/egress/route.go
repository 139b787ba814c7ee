// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	sources "github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// Route is how the proxy reaches the ingress, as far as this process can determine it.
type Route struct {
	CAs             *ingress.CABundle
	TrustUnreadable error // why the trusted CAs are unknown
	Egress          ingress.Egress
	Unresolved      error // why the egress proxy's address is unknown
	Err             error // why the route cannot be determined
}

// resolveTimeout bounds the name resolution of the egress proxy, so that time for the
// request remains.
const resolveTimeout = 4 * time.Second

// FindRoute determines the route to the ingress addresses.
func (e Settings) FindRoute(
	ctx context.Context, addrs []netip.Addr, s sources.Sources, resolver resolve.Resolver,
) Route {
	r := Route{CAs: s.Bundle(), TrustUnreadable: s.Unreadable()}
	if e.Config.EgressProxy.Upstream != config.EgressAuto {
		return r
	}
	setting, _, err := egress.NewStore(e.StateDir).Load()
	if errors.Is(err, fs.ErrPermission) && !e.Privileged {
		r.Err = errors.New("only root can read the accepted egress proxy, which may be on the route to the ingress")
		return r
	}
	// Without accepted settings, as after an error, no egress proxy is used.
	routes := egress.ProxiedAddresses(e.Config, setting.Settings, addrs, e.NoProxy)
	lookup := func(name string) (found []netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		found, r.Unresolved = resolver.Lookup(ctx, name)
		return found
	}
	r.Egress = egress.Decide(routes, memoize(lookup), setting, systemRoots())
	return r
}

// memoize resolves each name once.
func memoize(lookup func(string) []netip.Addr) func(string) []netip.Addr {
	known := make(map[string][]netip.Addr)
	return func(name string) []netip.Addr {
		if found, ok := known[name]; ok {
			return found
		}
		known[name] = lookup(name)
		return known[name]
	}
}

func systemRoots() [][]byte {
	system := trust.NewSystem(trust.SystemFiles())
	system.Refresh(time.Now())
	if at := system.Source(); at != nil {
		return trust.DER(at.Roots())
	}
	return nil
}

// ProxyFor is the egress proxy on the route to an ingress address; empty without one.
func (r Route) ProxyFor(at netip.AddrPort) string {
	i := slices.IndexFunc(r.Egress.Routes, func(t ingress.EgressRoute) bool { return t.Ingress == at })
	if i < 0 {
		return ""
	}
	return r.Egress.Routes[i].Proxy.Name
}

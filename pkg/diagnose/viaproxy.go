// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// upstreamTrust are the CAs that verify the ingress, loaded like the service does.
type upstreamTrust struct {
	configured *trust.Source // nil: the configuration uses no TLS
	system     *trust.System // nil: the configured bundle applies
}

func (h *host) readTrust() (t upstreamTrust) {
	if !h.config.UsesTLS() {
		return t
	}
	now := time.Now()
	t.configured = trust.NewSource(h.config.Upstream.TrustedCA, trust.NewLastGoodCopy(h.StateDir, trust.LastGoodName))
	t.configured.Refresh(now, true)
	if t.configured.Absent() {
		t.system = trust.NewSystem(trust.SystemFiles())
		t.system.Refresh(now, true)
	}
	return t
}

// unreadable is the reason why this process cannot read the CAs of the service, or nil.
func (t upstreamTrust) unreadable(h *host) error {
	if t.configured == nil || h.privileged || !errors.Is(t.configured.Err(), fs.ErrPermission) {
		return nil
	}
	return t.configured.Err()
}

func (t upstreamTrust) protocolTrust() *ingress.CABundle {
	if t.configured == nil {
		return nil
	}
	roots, source := trust.EffectiveRoots(t.configured, t.system)
	return trust.NewCABundle(source, roots)
}

// viaProxy are the settings with which the proxy contacts the ingress, as far as this
// process can determine them.
type viaProxy struct {
	trust           *ingress.CABundle
	trustUnreadable error // why the trusted CAs are unknown
	egress          ingress.Egress
	unresolved      error // why the egress proxy has no address
	err             error // why the settings cannot be determined
}

// resolveTimeout bounds the name resolution of the egress proxy, so that time for the
// request remains.
const resolveTimeout = 4 * time.Second

// loadViaProxy loads the settings with which the proxy contacts the ingress.
func (h *host) loadViaProxy(ctx context.Context, t upstreamTrust) viaProxy {
	g := viaProxy{trust: t.protocolTrust(), trustUnreadable: t.unreadable(h)}
	if h.config.EgressProxy.Upstream != config.EgressAuto {
		return g
	}
	setting, _, err := egress.NewStore(h.StateDir).Load()
	if errors.Is(err, fs.ErrPermission) && !h.privileged {
		g.err = errors.New("only root can read the accepted egress proxy, which may be on the route to the ingress")
		return g
	}
	// Without accepted settings, as after an error, no egress proxy is used.
	routes := egress.ProxiedAddresses(h.config, setting.Settings, h.vips.Ingress, h.automaticNoProxy())
	resolver := resolve.Resolver{ConfPath: h.ResolvConf, HostsPath: h.HostsFile, Query: h.prober.Lookup}
	addrs := func(name string) (found []netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		found, g.unresolved = resolver.Lookup(ctx, name)
		return found
	}
	g.egress = egress.Decide(routes, memoize(addrs), setting, systemRoots())
	return g
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
	system.Refresh(time.Now(), true)
	if at := system.Source(); at != nil {
		return trust.DER(at.Roots())
	}
	return nil
}

// automaticNoProxy are the addresses in the automatic part of the no-proxy list. An
// ingress has no name there.
func (h *host) automaticNoProxy() []string {
	var subnets []netip.Prefix
	for _, own := range h.addresses {
		subnets = append(subnets, netip.PrefixFrom(own.IP, own.Bits))
	}
	return egress.NewDirectDestinations(h.config.VIPs, h.vips.API, h.vips.Ingress, subnets).NoProxy()
}

// fetchViaProxy requests a challenge from an ingress VIP like the proxy does.
func (h *host) fetchViaProxy(ctx context.Context, g viaProxy, vip netip.Addr, name, path string) (protocol.FetchResult, error) {
	if g.err != nil {
		return protocol.FetchResult{}, g.err
	}
	settings := ingress.FromConfig(h.config.Upstream, []netip.Addr{vip})
	settings.ConnectTimeout = connectTimeout
	page, err := h.fetch(ctx, protocol.FetchRequest{
		Addr: netip.AddrPortFrom(vip, h.config.Upstream.InitialPort()), Host: name, Path: path,
		ViaProxy: &protocol.ProxyExchange{Client: h.clientAddress(vip), VIP: h.apiVIPFor(vip), Upstream: settings, CAs: g.trust, Egress: &g.egress},
	})
	if g.unresolved != nil {
		page.Context.ProxyLookupError = g.unresolved.Error()
	}
	return page, err
}

// egressProxy is the egress proxy on the route to an ingress address; empty without
// one.
func (g viaProxy) egressProxy(at netip.AddrPort) string {
	i := slices.IndexFunc(g.egress.Routes, func(t ingress.EgressRoute) bool { return t.Ingress == at })
	if i < 0 {
		return ""
	}
	return g.egress.Routes[i].Proxy.Name
}

// apiVIPFor is the API VIP in the address family of an ingress VIP, to which a client
// would connect.
func (h *host) apiVIPFor(ingress netip.Addr) netip.AddrPort {
	i := slices.IndexFunc(h.vips.API, func(vip netip.Addr) bool { return vip.Is4() == ingress.Is4() })
	if i < 0 {
		return netip.AddrPortFrom(ingress, httpPort)
	}
	return netip.AddrPortFrom(h.vips.API[i], httpPort)
}

// clientPort is arbitrary, because nothing listens on it.
const clientPort = 49152

// clientAddress is this host as the client that the router learns of.
func (h *host) clientAddress(ingress netip.Addr) netip.AddrPort {
	w, err := h.pathTo(ingress)
	if err != nil || !w.Source.IsValid() {
		return netip.AddrPortFrom(h.apiVIPFor(ingress).Addr(), clientPort)
	}
	return netip.AddrPortFrom(w.Source, clientPort)
}

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
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// upstreamTrust is what TLS to the ingress is verified by, read as the service reads it.
type upstreamTrust struct {
	configured *trust.Source // nil: by this configuration there is no TLS
	system     *trust.System // nil: the admin's count
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

// trustUnreadable is why this process does not know what the service trusts, if so.
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
	roots, whose := trust.EffectiveRoots(t.configured, t.system)
	return trust.NewCABundle(whose, roots)
}

// viaProxy is how the gate asks the ingress, as far as this process can know.
type viaProxy struct {
	trust           *ingress.CABundle
	trustUnreadable error // why what is trusted is not known
	egress          ingress.Egress
	unresolved      error // why there is no address of the egress proxy
	err             error // why the ingress cannot be asked as the gate does
}

// resolveTimeout bounds the search for the egress proxy's address, so that it can still
// be asked.
const resolveTimeout = 4 * time.Second

// loadViaProxy finds out how the gate asks the ingress.
func (h *host) loadViaProxy(ctx context.Context, t upstreamTrust) viaProxy {
	g := viaProxy{trust: t.protocolTrust(), trustUnreadable: t.unreadable(h)}
	if h.config.EgressProxy.Upstream != config.EgressAuto {
		return g
	}
	setting, _, err := egress.NewStore(h.StateDir).Load()
	if errors.Is(err, fs.ErrPermission) && !h.privileged {
		g.err = errors.New("the accepted egress proxy, through which it may be reached, is root's to read")
		return g
	}
	// Without an accepted one, as after an error, nothing goes through a proxy.
	ways := egress.ProxiedAddresses(h.config, setting.Settings, h.vips.Ingress, h.automaticNoProxy())
	addrs := func(name string) (found []netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		found, g.unresolved = h.prober.Resolver(h.ResolvConf, h.HostsFile).Lookup(ctx, name)
		return found
	}
	g.egress = egress.Decide(ways, memoize(addrs), setting, systemRoots())
	return g
}

// memoize has a question about a name asked a single time.
func memoize(ask func(string) []netip.Addr) func(string) []netip.Addr {
	known := make(map[string][]netip.Addr)
	return func(name string) []netip.Addr {
		if found, is := known[name]; is {
			return found
		}
		known[name] = ask(name)
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

// automaticNoProxy is the automatic part of the no-proxy list, as far as it is about
// addresses: an ingress has no name there.
func (h *host) automaticNoProxy() []string {
	around := egress.DirectDestinations{VIPs: h.vips.API}
	if !h.config.VIPs.Explicit() {
		around.VIPs = slices.Concat(h.vips.API, h.vips.Ingress)
	}
	for _, own := range h.addresses {
		around.Subnets = append(around.Subnets, netip.PrefixFrom(own.IP, own.Bits))
	}
	return around.NoProxy()
}

// fetchViaProxy asks an ingress VIP for a challenge as the gate does.
func (h *host) fetchViaProxy(ctx context.Context, g viaProxy, vip netip.Addr, name, path string) (prober.FetchResult, error) {
	if g.err != nil {
		return prober.FetchResult{}, g.err
	}
	settings := ingress.FromConfig(h.config.Upstream, []netip.Addr{vip})
	settings.ConnectTimeout = connectTimeout
	page, err := h.fetch(ctx, prober.FetchRequest{
		Addr: netip.AddrPortFrom(vip, h.config.Upstream.InitialPort()), Host: name, Path: path,
		ViaProxy: &prober.ProxyExchange{Client: h.clientAddress(vip), VIP: h.apiVIPFor(vip), Upstream: settings, CAs: g.trust, Egress: &g.egress},
	})
	if g.unresolved != nil {
		page.Context.ProxyLookupError = g.unresolved.Error()
	}
	return page, err
}

// egressProxy is the egress proxy through which an ingress address is asked; empty
// without one.
func (g viaProxy) egressProxy(at netip.AddrPort) string {
	i := slices.IndexFunc(g.egress.Routes, func(t ingress.EgressRoute) bool { return t.Ingress == at })
	if i < 0 {
		return ""
	}
	return g.egress.Routes[i].Proxy.Name
}

// apiVIPFor is the API VIP of an ingress VIP's family, at which a client would ask.
func (h *host) apiVIPFor(ingress netip.Addr) netip.AddrPort {
	i := slices.IndexFunc(h.vips.API, func(vip netip.Addr) bool { return vip.Is4() == ingress.Is4() })
	if i < 0 {
		return netip.AddrPortFrom(ingress, httpPort)
	}
	return netip.AddrPortFrom(h.vips.API[i], httpPort)
}

// clientPort is any: nobody hears on it.
const clientPort = 49152

// clientAddress is this host as a client, which a router is told of.
func (h *host) clientAddress(ingress netip.Addr) netip.AddrPort {
	w, err := h.pathTo(ingress, h.addresses)
	if err != nil || !w.source.IsValid() {
		return netip.AddrPortFrom(h.apiVIPFor(ingress).Addr(), clientPort)
	}
	return netip.AddrPortFrom(w.source, clientPort)
}

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
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/settings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// trusted is what TLS to the ingress is verified by, read as the service reads it.
type trusted struct {
	admin *trust.Source // nil: by this configuration there is no TLS
	host  *trust.System // nil: the admin's count
}

func (h *host) readTrust() (t trusted) {
	if !h.config.UsesTLS() {
		return t
	}
	now := time.Now()
	t.admin = trust.NewSource(h.config.Upstream.TrustedCA, trust.KeptIn(h.StateDir, trust.KeptName))
	t.admin.Look(now, true)
	if t.admin.Absent() {
		t.host = trust.NewSystem(trust.SystemFiles())
		t.host.Look(now, true)
	}
	return t
}

// hidden is why this process does not know what the service trusts, if so.
func (t trusted) hidden(h *host) error {
	if t.admin == nil || h.root || !errors.Is(t.admin.Err(), fs.ErrPermission) {
		return nil
	}
	return t.admin.Err()
}

func (t trusted) order() *protocol.CABundle {
	if t.admin == nil {
		return nil
	}
	roots, whose := trust.InForce(t.admin, t.host)
	return settings.Trust(whose, roots)
}

// asGate is how the gate asks the ingress, as far as this process can know.
type asGate struct {
	trust    *protocol.CABundle
	hidden   error // why what is trusted is not known
	egress   protocol.EgressRoutes
	nameless error // why there is no address of the egress proxy
	err      error // why the ingress cannot be asked as the gate does
}

// resolveTime bounds the search for the egress proxy's address, so that it can still
// be asked.
const resolveTime = 4 * time.Second

// findAsGate finds out how the gate asks the ingress.
func (h *host) findAsGate(ctx context.Context, t trusted) asGate {
	g := asGate{trust: t.order(), hidden: t.hidden(h)}
	if h.config.EgressProxy.Upstream != config.EgressAuto {
		return g
	}
	setting, _, err := egress.NewKeeper(h.StateDir).Load()
	if errors.Is(err, fs.ErrPermission) && !h.root {
		g.err = errors.New("the accepted egress proxy, through which it may be reached, is root's to read")
		return g
	}
	// Without an accepted one, as after an error, nothing goes through a proxy.
	ways := settings.EgressRoutes(h.config, setting.Settings, h.vips.Ingress, h.neverThroughProxy())
	addrs := func(name string) (found []netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, resolveTime)
		defer cancel()
		found, g.nameless = h.network.Resolver(h.ResolvConf, h.Hosts).Addresses(ctx, name)
		return found
	}
	g.egress = settings.Egress(ways, once(addrs), setting, systemRoots())
	return g
}

// once has a question about a name asked a single time.
func once(ask func(string) []netip.Addr) func(string) []netip.Addr {
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
	system.Look(time.Now(), true)
	if at := system.Source(); at != nil {
		return trust.DER(at.Roots())
	}
	return nil
}

// neverThroughProxy is the automatic part of the no-proxy list, as far as it is about
// addresses: an ingress has no name there.
func (h *host) neverThroughProxy() []string {
	around := egress.Around{VIPs: h.vips.API}
	if !h.config.VIPs.Explicit() {
		around.VIPs = slices.Concat(h.vips.API, h.vips.Ingress)
	}
	for _, own := range h.addresses {
		around.Subnets = append(around.Subnets, netip.PrefixFrom(own.IP, own.Bits))
	}
	return around.NoProxy()
}

// askAsGate asks an ingress VIP for a challenge as the gate does.
func (h *host) askAsGate(ctx context.Context, g asGate, vip netip.Addr, name, path string) (prober.FetchResult, error) {
	if g.err != nil {
		return prober.FetchResult{}, g.err
	}
	settings := settings.Configure(h.config.Upstream, []netip.Addr{vip})
	settings.ConnectTimeout = connectTimeout
	page, err := h.fetch(ctx, prober.FetchRequest{
		Addr: netip.AddrPortFrom(vip, h.config.Upstream.InitialPort()), Host: name, Path: path,
		ViaProxy: &prober.ProxyExchange{Client: h.clientFor(vip), VIP: h.doorFor(vip), Configure: settings, Trust: g.trust, Egress: &g.egress},
	})
	if g.nameless != nil {
		page.Context.ProxyLookupError = g.nameless.Error()
	}
	return page, err
}

// through is the egress proxy through which an ingress address is asked; empty
// without one.
func (g asGate) through(at netip.AddrPort) string {
	i := slices.IndexFunc(g.egress.Routes, func(t protocol.EgressRoute) bool { return t.Ingress == at })
	if i < 0 {
		return ""
	}
	return g.egress.Routes[i].Proxy.Name
}

// doorFor is the API VIP of an ingress VIP's family, at which a client would ask.
func (h *host) doorFor(ingress netip.Addr) netip.AddrPort {
	i := slices.IndexFunc(h.vips.API, func(vip netip.Addr) bool { return vip.Is4() == ingress.Is4() })
	if i < 0 {
		return netip.AddrPortFrom(ingress, httpPort)
	}
	return netip.AddrPortFrom(h.vips.API[i], httpPort)
}

// clientPort is any: nobody hears on it.
const clientPort = 49152

// clientFor is this host as a client, which a router is told of.
func (h *host) clientFor(ingress netip.Addr) netip.AddrPort {
	w, err := h.wayTo(ingress, h.addresses)
	if err != nil || !w.source.IsValid() {
		return netip.AddrPortFrom(h.doorFor(ingress).Addr(), clientPort)
	}
	return netip.AddrPortFrom(w.source, clientPort)
}

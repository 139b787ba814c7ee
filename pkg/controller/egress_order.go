// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/settings"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// publish tells the gate and the board what is so now. It needs mu.
func (e *egressWatch) publish() {
	if !e.known {
		return
	}
	e.published = time.Now()
	automatic := e.around().NoProxy()
	ways := e.ways(automatic)
	e.tell(e.order(ways))
	shown := e.show(ways, automatic)
	if reflect.DeepEqual(shown, e.shown) {
		return
	}
	sayEgress(e.log, e.shown, shown)
	e.shown = shown
	e.board.SetEgress(shown, time.Now())
}

// ways are all that lead through a proxy. A proxy whose name was never tried to be
// resolved waits, and what the gate goes by meanwhile stays. It needs mu.
func (e *egressWatch) ways(automatic []string) []settings.Way {
	next := usedEgress{e.gates.EgressProxy, e.acceptance.InForce()}
	ways := e.waysBy(next, automatic)
	if e.used == nil || e.reachable(ways) {
		e.used = &next
		e.heed(ways)
		return ways
	}
	before := e.waysBy(*e.used, automatic)
	e.heed(slices.Concat(ways, before))
	if e.reachable(ways) {
		e.used = &next // by its address, or one that is kept
		e.heed(ways)
		return ways
	}
	return before
}

func (e *egressWatch) waysBy(used usedEgress, automatic []string) []settings.Way {
	c := e.gates
	c.EgressProxy = used.egress
	return settings.Ways(c, used.setting.Settings, e.ingress, automatic)
}

// reachable reports whether each proxy has an address, or it is known why not. It needs
// mu.
func (e *egressWatch) reachable(ways []settings.Way) bool {
	return !slices.ContainsFunc(ways, func(w settings.Way) bool {
		r := e.names[w.Proxy.Hostname()]
		return r == nil || !r.known()
	})
}

// heed keeps the names of the proxies that ways lead through, and no others, among
// those that are resolved. It needs mu.
func (e *egressWatch) heed(ways []settings.Way) {
	wanted := make(map[string]bool)
	for _, w := range ways {
		name := w.Proxy.Hostname()
		wanted[name] = true
		if _, is := e.names[name]; is {
			continue
		}
		r := &resolution{addrs: e.last[name]}
		if addr, err := netip.ParseAddr(name); err == nil {
			r.addrs, r.next = []netip.Addr{addr.Unmap()}, time.Now().Add(resolveEvery)
		}
		e.names[name] = r
		e.wake()
	}
	maps.DeleteFunc(e.names, func(name string, _ *resolution) bool { return !wanted[name] })
}

// order is what the gate is to do. A proxy whose name cannot be resolved, or of which
// that is not known in time, has no address. It needs mu.
func (e *egressWatch) order(ways []settings.Way) protocol.Egress {
	addrs := func(name string) []netip.Addr { return e.names[name].addrs }
	return settings.Egress(ways, addrs, e.used.setting, e.systemRoots())
}

// maxShownNoProxy bounds the list on the board: a file may have a long one.
const maxShownNoProxy = 8 << 10

// show is what people and programs are shown. It needs mu.
func (e *egressWatch) show(ways []settings.Way, automatic []string) report.EgressProxy {
	state := e.acceptance.State()
	shown := report.EgressProxy{
		Upstream: string(e.gates.EgressProxy.Upstream), Since: state.Since, Pending: e.acceptance.Pending(),
		NoProxy: cut(e.acceptance.InForce().Settings.NoProxyWith(automatic)), NextTry: state.Next, RefusedBy: e.refusedBy,
	}
	if state.Spec != nil {
		shown.Spec = showSetting(*state.Spec)
	}
	if state.Accepted != nil {
		shown.Accepted, shown.AcceptedAt = showSetting(*state.Accepted), state.At
	}
	for _, p := range state.Endpoints {
		shown.Endpoints = append(shown.Endpoints, report.EgressEndpoint{URL: shownURL(p.URL), OK: p.OK, Error: p.Error, Checked: p.Checked})
	}
	switch {
	case state.Refused != nil:
		shown.Why = state.Refused.Error()
	case shown.Pending:
		shown.Why = whyNotYet(state.Endpoints)
	}
	for _, w := range ways {
		shown.Through = append(shown.Through, e.showWay(w))
	}
	return shown
}

func (e *egressWatch) showWay(w settings.Way) report.EgressThrough {
	t := report.EgressThrough{Ingress: w.Ingress.String(), Proxy: egress.Redact(w.Proxy), Addresses: []string{}}
	r := e.names[w.Proxy.Hostname()]
	for _, addr := range r.addrs {
		t.Addresses = append(t.Addresses, addr.String())
	}
	if r.err != nil {
		t.Error = r.err.Error()
	}
	return t
}

func showSetting(s egress.Setting) report.EgressSetting {
	return report.EgressSetting{
		HTTPProxy: s.Settings.RedactedHTTP(), HTTPSProxy: s.Settings.RedactedHTTPS(), NoProxy: cut(s.Settings.NoProxy),
		Source: s.Settings.Source, TrustedCAs: len(s.Roots),
	}
}

func cut(list string) string {
	if len(list) > maxShownNoProxy {
		return list[:maxShownNoProxy] + "…"
	}
	return list
}

// shownURL is an endpoint without what may be a secret in it.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that is none"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

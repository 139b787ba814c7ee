// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// publish tells the gate and the board what is so now. It needs mu.
func (e *egressWatcher) publish() {
	if !e.configured {
		return
	}
	e.published = time.Now()
	automatic := e.directTargets().NoProxy()
	ways := e.routes(automatic)
	e.decision.Egress = e.command(ways)
	e.setEgress(e.decision)
	shown := e.report(ways, automatic)
	if reflect.DeepEqual(shown, e.lastReported) {
		return
	}
	logEgressChanges(e.log, e.lastReported, shown)
	e.lastReported = shown
	e.tracker.SetEgress(shown, time.Now())
}

// routes are all that lead through a proxy. A proxy whose name was never tried to be
// resolved waits, and what the gate goes by meanwhile stays. It needs mu.
func (e *egressWatcher) routes(automatic []string) []egress.ProxiedAddress {
	next := appliedEgress{e.appliedConfig.EgressProxy, e.acceptance.Effective()}
	ways := e.routesWith(next, automatic)
	if e.applied == nil || e.allSettled(ways) {
		e.applied = &next
		e.trackNames(ways)
		return ways
	}
	before := e.routesWith(*e.applied, automatic)
	e.trackNames(slices.Concat(ways, before))
	if e.allSettled(ways) {
		e.applied = &next // by its address, or one that is kept
		e.trackNames(ways)
		return ways
	}
	return before
}

func (e *egressWatcher) routesWith(used appliedEgress, automatic []string) []egress.ProxiedAddress {
	c := e.appliedConfig
	c.EgressProxy = used.egress
	return egress.ProxiedAddresses(c, used.setting.Settings, e.ingress, automatic)
}

// allSettled reports whether each proxy has an address, or it is known why not. It needs
// mu.
func (e *egressWatcher) allSettled(ways []egress.ProxiedAddress) bool {
	return !slices.ContainsFunc(ways, func(w egress.ProxiedAddress) bool {
		r := e.resolutions[w.Proxy.Hostname()]
		return r == nil || !r.settled()
	})
}

// trackNames keeps the names of the proxies that ways lead through, and no others, among
// those that are resolved. It needs mu.
func (e *egressWatcher) trackNames(ways []egress.ProxiedAddress) {
	wanted := make(map[string]bool)
	for _, w := range ways {
		name := w.Proxy.Hostname()
		wanted[name] = true
		if _, is := e.resolutions[name]; is {
			continue
		}
		r := &resolution{addrs: e.savedAddresses[name]}
		if addr, err := netip.ParseAddr(name); err == nil {
			r.addrs, r.next = []netip.Addr{addr.Unmap()}, time.Now().Add(resolveInterval)
		}
		e.resolutions[name] = r
		e.wake()
	}
	maps.DeleteFunc(e.resolutions, func(name string, _ *resolution) bool { return !wanted[name] })
}

// last is what the gate is to do. A proxy whose name cannot be resolved, or of which
// that is not known in time, has no address. It needs mu.
func (e *egressWatcher) command(ways []egress.ProxiedAddress) ingress.Egress {
	addrs := func(name string) []netip.Addr { return e.resolutions[name].addrs }
	return egress.Decide(ways, addrs, e.applied.setting, e.systemRoots())
}

// maxReportedNoProxy bounds the list on the board: a file may have a long one.
const maxReportedNoProxy = 8 << 10

// report is what people and programs are shown. It needs mu.
func (e *egressWatcher) report(ways []egress.ProxiedAddress, automatic []string) report.EgressProxy {
	state := e.acceptance.State()
	shown := report.EgressProxy{
		Upstream: string(e.appliedConfig.EgressProxy.Upstream), Since: state.SpecSince, Pending: e.acceptance.Pending(),
		NoProxy: truncate(e.acceptance.Effective().Settings.EffectiveNoProxy(automatic)), NextCheck: state.NextProbe, InvalidInput: e.refusedBy,
	}
	if state.Spec != nil {
		shown.Spec = reportSetting(*state.Spec)
	}
	if state.Accepted != nil {
		shown.Accepted, shown.AcceptedAt = reportSetting(*state.Accepted), state.AcceptedAt
	}
	for _, p := range state.Endpoints {
		shown.Endpoints = append(shown.Endpoints, report.EgressEndpoint{URL: redactURL(p.URL), OK: p.OK, Error: p.Error, Checked: p.Checked})
	}
	switch {
	case state.Rejection != nil:
		shown.Message = state.Rejection.Error()
	case shown.Pending:
		shown.Message = pendingReason(state.Endpoints)
	}
	for _, w := range ways {
		shown.Routes = append(shown.Routes, e.reportRoute(w))
	}
	return shown
}

func (e *egressWatcher) reportRoute(w egress.ProxiedAddress) report.EgressRoute {
	t := report.EgressRoute{Ingress: w.Ingress.String(), Proxy: egress.Redact(w.Proxy), Addresses: []string{}}
	r := e.resolutions[w.Proxy.Hostname()]
	for _, addr := range r.addrs {
		t.Addresses = append(t.Addresses, addr.String())
	}
	if r.err != nil {
		t.Error = r.err.Error()
	}
	return t
}

func reportSetting(s egress.Configuration) report.EgressSetting {
	return report.EgressSetting{
		HTTPProxy: s.Settings.RedactedHTTP(), HTTPSProxy: s.Settings.RedactedHTTPS(), NoProxy: truncate(s.Settings.NoProxy),
		Source: s.Settings.Source, TrustedCAs: len(s.Roots),
	}
}

func truncate(list string) string {
	if len(list) > maxReportedNoProxy {
		return list[:maxReportedNoProxy] + "…"
	}
	return list
}

// redactURL is an endpoint without what may be a secret in it.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that is none"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

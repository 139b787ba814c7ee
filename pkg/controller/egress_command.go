// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// publish passes the routes on, and reports them if something has changed.
func (w *egressWatcher) publish(now time.Time) {
	if !w.configured || !w.observed {
		return
	}
	automatic := w.directTargets().NoProxy()
	routes := w.routes(automatic)
	w.pass(routes, now)
	next := w.report(routes, automatic)
	if reflect.DeepEqual(next, w.lastReported) {
		return
	}
	logEgressChanges(w.log, w.lastReported, next, w.acceptance.State().Restored)
	w.lastReported = next
	w.tracker.SetEgress(next, now)
}

// routes returns all ingress addresses that are reached through a proxy. While the name of
// a new proxy was never resolved, the previous routes stay.
func (w *egressWatcher) routes(automatic []string) []egress.ProxiedAddress {
	next := appliedEgress{w.target.config.EgressProxy, w.acceptance.Effective()}
	routes := w.routesWith(next, automatic)
	if w.applied == nil || w.allSettled(routes) {
		w.applied = &next
		w.trackNames(routes)
		return routes
	}
	before := w.routesWith(*w.applied, automatic)
	w.trackNames(slices.Concat(routes, before))
	if w.allSettled(routes) {
		w.applied = &next // by an address, or a saved one
		w.trackNames(routes)
		return routes
	}
	return before
}

func (w *egressWatcher) routesWith(applied appliedEgress, automatic []string) []egress.ProxiedAddress {
	c := w.target.config
	c.EgressProxy = applied.egress
	return egress.ProxiedAddresses(c, applied.setting.Settings, w.target.ingress, automatic)
}

// allSettled reports whether each proxy has an address, or the reason why not is known.
func (w *egressWatcher) allSettled(routes []egress.ProxiedAddress) bool {
	return !slices.ContainsFunc(routes, func(r egress.ProxiedAddress) bool {
		name := w.resolutions[r.Proxy.Hostname()]
		return name == nil || !name.settled()
	})
}

// trackNames resolves the names of the proxies of these routes, and no others.
func (w *egressWatcher) trackNames(routes []egress.ProxiedAddress) {
	tracked := make(map[string]bool)
	for _, route := range routes {
		name := route.Proxy.Hostname()
		tracked[name] = true
		if _, is := w.resolutions[name]; is {
			continue
		}
		r := &resolution{addrs: w.savedAddresses[name]}
		if addr, err := netip.ParseAddr(name); err == nil {
			r.addrs, r.next = []netip.Addr{addr.Unmap()}, time.Now().Add(resolveInterval)
		}
		w.resolutions[name] = r
	}
	maps.DeleteFunc(w.resolutions, func(name string, _ *resolution) bool { return !tracked[name] })
}

// command returns the routes for the proxy process. A proxy whose name was not resolved has
// no address.
func (w *egressWatcher) command(routes []egress.ProxiedAddress) ingress.Egress {
	addrs := func(name string) []netip.Addr { return w.resolutions[name].addrs }
	return egress.Decide(routes, addrs, w.applied.setting, w.systemRoots())
}

// maxReportedNoProxy bounds the list in the report: a file can have a long one.
const maxReportedNoProxy = 8 << 10

// report returns the state for people and programs.
func (w *egressWatcher) report(routes []egress.ProxiedAddress, automatic []string) report.EgressProxy {
	state := w.acceptance.State()
	r := report.EgressProxy{
		Upstream: string(w.target.config.EgressProxy.Upstream), Since: state.SpecSince, Pending: w.acceptance.Pending(),
		NoProxy: printable.Truncate(w.acceptance.Effective().Settings.EffectiveNoProxy(automatic), maxReportedNoProxy), NextCheck: state.NextProbe, InvalidInput: w.invalidInput,
	}
	if state.Spec != nil {
		r.Spec = reportSetting(*state.Spec)
	}
	if state.Accepted != nil {
		r.Accepted, r.AcceptedAt = reportSetting(*state.Accepted), state.AcceptedAt
	}
	for _, p := range state.Endpoints {
		r.Endpoints = append(r.Endpoints, report.EgressEndpoint{URL: redactURL(p.URL), OK: p.OK, Error: p.Error, Checked: p.Checked})
	}
	switch {
	case state.Rejection != nil:
		r.Message = state.Rejection.Error()
	case r.Pending:
		r.Message = pendingReason(state.Endpoints)
	}
	for _, route := range routes {
		r.Routes = append(r.Routes, w.reportRoute(route))
	}
	return r
}

func (w *egressWatcher) reportRoute(route egress.ProxiedAddress) report.EgressRoute {
	t := report.EgressRoute{Ingress: route.Ingress.String(), Proxy: egress.Redact(route.Proxy), Addresses: []string{}}
	r := w.resolutions[route.Proxy.Hostname()]
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
		HTTPProxy: s.Settings.RedactedHTTP(), HTTPSProxy: s.Settings.RedactedHTTPS(), NoProxy: printable.Truncate(s.Settings.NoProxy, maxReportedNoProxy),
		Source: s.Settings.Source, TrustedCAs: len(s.Roots),
	}
}

// redactURL returns an endpoint without the parts that can be secret.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an invalid URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

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

// publish passes the routes on, and reports them if something has changed.
func (e *egressWatcher) publish(now time.Time) {
	if !e.configured || !e.observed {
		return
	}
	automatic := e.directTargets().NoProxy()
	routes := e.routes(automatic)
	e.pass(routes, now)
	next := e.report(routes, automatic)
	if reflect.DeepEqual(next, e.lastReported) {
		return
	}
	logEgressChanges(e.log, e.lastReported, next)
	e.lastReported = next
	e.tracker.SetEgress(next, now)
}

// routes returns all ingress addresses that are reached through a proxy. While the name of
// a new proxy was never resolved, the previous routes stay.
func (e *egressWatcher) routes(automatic []string) []egress.ProxiedAddress {
	next := appliedEgress{e.target.config.EgressProxy, e.acceptance.Effective()}
	routes := e.routesWith(next, automatic)
	if e.applied == nil || e.allSettled(routes) {
		e.applied = &next
		e.trackNames(routes)
		return routes
	}
	before := e.routesWith(*e.applied, automatic)
	e.trackNames(slices.Concat(routes, before))
	if e.allSettled(routes) {
		e.applied = &next // by an address, or a saved one
		e.trackNames(routes)
		return routes
	}
	return before
}

func (e *egressWatcher) routesWith(applied appliedEgress, automatic []string) []egress.ProxiedAddress {
	c := e.target.config
	c.EgressProxy = applied.egress
	return egress.ProxiedAddresses(c, applied.setting.Settings, e.target.ingress, automatic)
}

// allSettled reports whether each proxy has an address, or the reason why not is known.
func (e *egressWatcher) allSettled(routes []egress.ProxiedAddress) bool {
	return !slices.ContainsFunc(routes, func(r egress.ProxiedAddress) bool {
		name := e.resolutions[r.Proxy.Hostname()]
		return name == nil || !name.settled()
	})
}

// trackNames resolves the names of the proxies of these routes, and no others.
func (e *egressWatcher) trackNames(routes []egress.ProxiedAddress) {
	tracked := make(map[string]bool)
	for _, route := range routes {
		name := route.Proxy.Hostname()
		tracked[name] = true
		if _, is := e.resolutions[name]; is {
			continue
		}
		r := &resolution{addrs: e.savedAddresses[name]}
		if addr, err := netip.ParseAddr(name); err == nil {
			r.addrs, r.next = []netip.Addr{addr.Unmap()}, time.Now().Add(resolveInterval)
		}
		e.resolutions[name] = r
	}
	maps.DeleteFunc(e.resolutions, func(name string, _ *resolution) bool { return !tracked[name] })
}

// command returns the routes for the proxy process. A proxy whose name was not resolved has
// no address.
func (e *egressWatcher) command(routes []egress.ProxiedAddress) ingress.Egress {
	addrs := func(name string) []netip.Addr { return e.resolutions[name].addrs }
	return egress.Decide(routes, addrs, e.applied.setting, e.systemRoots())
}

// maxReportedNoProxy bounds the list in the report: a file can have a long one.
const maxReportedNoProxy = 8 << 10

// report returns the state for people and programs.
func (e *egressWatcher) report(routes []egress.ProxiedAddress, automatic []string) report.EgressProxy {
	state := e.acceptance.State()
	r := report.EgressProxy{
		Upstream: string(e.target.config.EgressProxy.Upstream), Since: state.SpecSince, Pending: e.acceptance.Pending(),
		NoProxy: truncate(e.acceptance.Effective().Settings.EffectiveNoProxy(automatic)), NextCheck: state.NextProbe, InvalidInput: e.invalidInput,
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
		r.Routes = append(r.Routes, e.reportRoute(route))
	}
	return r
}

func (e *egressWatcher) reportRoute(route egress.ProxiedAddress) report.EgressRoute {
	t := report.EgressRoute{Ingress: route.Ingress.String(), Proxy: egress.Redact(route.Proxy), Addresses: []string{}}
	r := e.resolutions[route.Proxy.Hostname()]
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

// redactURL returns an endpoint without the parts that can be secret.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an invalid URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

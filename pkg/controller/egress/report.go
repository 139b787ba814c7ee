// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxReportedNoProxy bounds the list in the report: a file can contain a long one.
const maxReportedNoProxy = 8 << 10

// report returns the state for people and programs.
func (w *Watcher) report(routes []egress.ProxiedAddress) report.EgressProxy {
	a := &w.acceptance
	r := report.EgressProxy{
		Upstream: string(w.input.Config.EgressProxy.Upstream), Since: a.specSince, Pending: a.pending(),
		NoProxy:   printable.Truncate(a.effective().Settings.EffectiveNoProxy(w.automatic), maxReportedNoProxy),
		Endpoints: slices.Clone(a.endpoints), InvalidInput: w.contents.invalid,
	}
	switch r.InvalidInput {
	case report.EgressInputFile:
		r.InvalidFile = w.input.Config.EgressProxy.File
	case report.EgressInputTrustedCA:
		r.InvalidFile = w.input.Config.EgressProxy.TrustedCA
	}
	if a.spec != nil {
		r.Spec = reportSetting(*a.spec)
	}
	if a.accepted != nil {
		r.Accepted, r.AcceptedAt = reportSetting(*a.accepted), a.acceptedAt
	}
	if r.Pending && w.probing == nil {
		r.NextCheck = a.nextProbe
	}
	switch {
	case w.stalled:
		r.InvalidInput = report.EgressInputFile
		r.Message = fmt.Sprintf("reading egressProxy.file, egressProxy.trustedCA or the CAs of this host "+
			"has not finished after %v: check the file systems of these files", w.StallTimeout)
	case a.rejection != nil:
		r.Message = a.rejection.Error()
	case r.Pending:
		r.Message = pendingReason(a.endpoints)
	}
	for _, route := range routes {
		t := report.EgressRoute{Ingress: route.Ingress.String(), Proxy: egress.Redact(route.Proxy), Addresses: []string{}}
		l := w.lookup(route.Proxy.Hostname())
		for _, addr := range l.addrs {
			t.Addresses = append(t.Addresses, addr.String())
		}
		if l.err != nil {
			t.Error = l.err.Error()
		}
		r.Routes = append(r.Routes, t)
	}
	return r
}

func reportSetting(s egress.Configuration) report.EgressSetting {
	return report.EgressSetting{
		HTTPProxy: s.Settings.RedactedHTTP(), HTTPSProxy: s.Settings.RedactedHTTPS(),
		NoProxy: printable.Truncate(s.Settings.NoProxy, maxReportedNoProxy),
		Source:  s.Settings.Source, TrustedCAs: len(s.Roots),
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

// pendingReason names what the acceptance of the setting waits for.
func pendingReason(endpoints []report.EgressEndpoint) string {
	var all []string
	for _, p := range endpoints {
		if p.Error != "" {
			all = append(all, fmt.Sprintf("%s is not ready: %s", p.URL, p.Error))
		}
	}
	return strings.Join(all, "; ")
}

// logChanges logs each change of the condition once. No text of a report contains credentials.
func logChanges(log *slog.Logger, before, now report.EgressProxy) {
	_, previous := before.Evaluate()
	reason, message := now.Evaluate()
	if message == previous || reason == report.EgressNotConfigured && before.Accepted.IsDirect() {
		return
	}
	setting, event, level := now.Accepted, "egress-accepted", slog.LevelInfo
	switch {
	case reason == report.EgressInvalid:
		event, level = "egress-rejected", slog.LevelError
	case reason == report.EgressNotReady && now.Message == "":
		setting, event = now.Spec, "egress"
	case reason == report.EgressNotReady:
		setting, event, level = now.Spec, "egress-pending", slog.LevelWarn
	case slices.ContainsFunc(now.Routes, func(r report.EgressRoute) bool { return r.Error != "" }):
		event, level = "egress-resolve", slog.LevelWarn
	}
	log.Log(context.Background(), level, message,
		slog.String("event", event), slog.String("http_proxy", setting.HTTPProxy),
		slog.String("https_proxy", setting.HTTPSProxy),
		slog.String("source", setting.Source), slog.Int("trusted_cas", setting.TrustedCAs),
		slog.String("rejected", string(now.InvalidInput)), slog.String("error", now.Message))
}

// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxReportedNoProxy bounds the list in the report: a file can have a long one.
const maxReportedNoProxy = 8 << 10

// report returns the state for people and programs.
func (w *Watcher) report(routes []egress.ProxiedAddress, stalled bool) report.EgressProxy {
	a := &w.acceptance
	r := report.EgressProxy{
		Upstream: string(w.input.Config.EgressProxy.Upstream), Since: a.specSince, Pending: a.pending(),
		NoProxy:   printable.Truncate(a.effective().Settings.EffectiveNoProxy(w.automatic), maxReportedNoProxy),
		Endpoints: slices.Clone(a.endpoints), InvalidInput: w.contents.invalid,
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
	case stalled:
		r.InvalidInput = report.EgressInputFile
		r.Message = fmt.Sprintf("reading egressProxy.file, egressProxy.trustedCA or the CAs of this host "+
			"has not returned for %v: check the file systems of these files", w.StallTimeout)
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

// logChanges logs each change once. restored means that an earlier process has accepted the
// setting. No text of a report contains credentials.
func logChanges(log *slog.Logger, before, now report.EgressProxy, restored bool) {
	current := "the last accepted settings stay in force"
	if now.Accepted.IsDirect() {
		current = "no egress proxy is in use"
	}
	if now.InvalidInput != "" && (before.InvalidInput == "" || before.Message != now.Message) {
		log.Error("the egress proxy settings are invalid; "+current, slog.String("event", "egress-rejected"),
			slog.String("rejected", string(now.InvalidInput)), slog.String("error", now.Message))
	}
	if now.Pending && (!before.Pending || before.Since != now.Since) {
		log.Info("new egress proxy settings take effect after the readiness endpoints have answered through the proxy; "+
			"until then "+current,
			settingAttrs("egress", now.Spec)...)
	}
	if now.Pending && now.Message != "" && before.Message != now.Message {
		log.Warn("the new egress proxy settings are not accepted yet; retrying",
			append(settingAttrs("egress-pending", now.Spec), slog.String("error", now.Message))...)
	}
	logAccepted(log, before, now, restored)
	logUnresolved(log, before.Routes, now.Routes)
}

func settingAttrs(event string, s report.EgressSetting) []any {
	return []any{
		slog.String("event", event), slog.String("http_proxy", s.HTTPProxy), slog.String("https_proxy", s.HTTPSProxy),
		slog.String("source", s.Source), slog.Int("trusted_cas", s.TrustedCAs),
	}
}

func logAccepted(log *slog.Logger, before, now report.EgressProxy, restored bool) {
	if before.AcceptedAt.Equal(now.AcceptedAt) && before.Accepted == now.Accepted {
		return
	}
	message := "the egress proxy is accepted"
	switch {
	case now.Accepted.IsDirect() && before.Accepted.IsDirect():
		return
	case now.Accepted.IsDirect():
		message = "the egress proxy was removed from the settings"
	case restored && before.Upstream == "": // the first report of this process
		message = "the egress proxy accepted before this start stays in force; accepted at " +
			now.AcceptedAt.UTC().Format(time.RFC3339)
	}
	log.Info(message, settingAttrs("egress-accepted", now.Accepted)...)
}

// logUnresolved names each proxy whose name cannot be resolved.
func logUnresolved(log *slog.Logger, before, now []report.EgressRoute) {
	logged := make(map[string]bool)
	for _, r := range before {
		logged[r.Error] = true
	}
	for _, r := range now {
		if logged[r.Error] || r.Error == "" {
			continue
		}
		logged[r.Error] = true
		effect := "challenges fail until it is resolved"
		if len(r.Addresses) > 0 {
			effect = "the last addresses stay in use"
		}
		log.Warn("cannot resolve the name of the egress proxy; "+effect+"; retrying",
			slog.String("event", "egress-resolve"), slog.String("proxy", r.Proxy), slog.String("error", r.Error))
	}
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// logEgressChanges logs each change once. restored means that an earlier process has accepted
// the setting. No text of a report contains credentials.
func logEgressChanges(log *slog.Logger, before, now report.EgressProxy, restored bool) {
	if now.InvalidInput != "" && (before.InvalidInput == "" || before.Message != now.Message) {
		log.Error("the egress proxy settings are invalid; "+inForceText(now), slog.String("event", "egress-rejected"),
			slog.String("rejected", string(now.InvalidInput)), slog.String("error", now.Message))
	}
	if now.Pending && (!before.Pending || before.Since != now.Since) {
		log.Info(fmt.Sprintf("new egress proxy settings take effect after %s through the proxy; until then %s", endpointsAnswered(len(now.Endpoints)), inForceText(now)),
			egressAttrs("egress", now.Spec)...)
	}
	if now.Pending && now.Message != "" && before.Message != now.Message {
		log.Warn("the new egress proxy settings are not accepted yet; retrying", append(egressAttrs("egress-pending", now.Spec), slog.String("error", now.Message))...)
	}
	logAccepted(log, before, now, restored)
	logUnresolved(log, before, now)
}

func endpointsAnswered(endpoints int) string {
	if endpoints == 1 {
		return "the readiness endpoint has answered"
	}
	return fmt.Sprintf("all %d readiness endpoints have answered", endpoints)
}

func inForceText(e report.EgressProxy) string {
	if isUnset(e.Accepted) {
		return "no egress proxy is in use"
	}
	return "the last accepted settings stay in force"
}

func isUnset(s report.EgressSetting) bool { return s.HTTPProxy == "" && s.HTTPSProxy == "" }

func logAccepted(log *slog.Logger, before, now report.EgressProxy, restored bool) {
	if before.AcceptedAt.Equal(now.AcceptedAt) && before.Accepted == now.Accepted {
		return
	}
	switch {
	case restored && before.Upstream == "" && !isUnset(now.Accepted): // the first report of this process
		log.Info("the egress proxy accepted before this start stays in force; accepted at "+now.AcceptedAt.UTC().Format(time.RFC3339), egressAttrs("egress-accepted", now.Accepted)...)
	case !isUnset(now.Accepted):
		log.Info("the egress proxy is accepted", egressAttrs("egress-accepted", now.Accepted)...)
	case !isUnset(before.Accepted):
		log.Info("the egress proxy was removed from the settings", egressAttrs("egress-accepted", now.Accepted)...)
	}
}

func egressAttrs(event string, s report.EgressSetting) []any {
	return []any{
		slog.String("event", event), slog.String("http_proxy", s.HTTPProxy), slog.String("https_proxy", s.HTTPSProxy),
		slog.String("source", s.Source), slog.Int("trusted_cas", s.TrustedCAs),
	}
}

// logUnresolved names each proxy whose name cannot be resolved.
func logUnresolved(log *slog.Logger, before, now report.EgressProxy) {
	logged := make(map[string]bool)
	for _, r := range before.Routes {
		logged[r.Error] = true
	}
	for _, r := range now.Routes {
		if logged[r.Error] || r.Error == "" {
			continue
		}
		logged[r.Error] = true
		effect := "challenges fail until it is resolved"
		if len(r.Addresses) > 0 {
			effect = "the last addresses stay in use"
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "cannot resolve the name of the egress proxy; "+effect+"; retrying",
			slog.String("event", "egress-resolve"), slog.String("proxy", r.Proxy), slog.String("error", r.Error))
	}
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// logEgressChanges logs what has changed, once each. No text of a report holds credentials.
func logEgressChanges(log *slog.Logger, before, now report.EgressProxy) {
	if now.InvalidInput != "" && (before.InvalidInput == "" || before.Message != now.Message) {
		log.Error("the egress proxy that is asked for is refused, and "+inForceText(now), slog.String("event", "egress-refused"),
			slog.String("refused", string(now.InvalidInput)), slog.String("error", now.Message))
	}
	if now.Pending && (!before.Pending || before.Since != now.Since) {
		log.Info(fmt.Sprintf("an egress proxy is asked for, and counts once %s through it; until then %s", answered(len(now.Endpoints)), inForceText(now)),
			egressAttrs("egress", now.Spec)...)
	}
	if now.Pending && now.Message != "" && before.Message != now.Message {
		log.Warn("the egress proxy that is asked for is not accepted yet; trying again", append(egressAttrs("egress-waits", now.Spec), slog.String("error", now.Message))...)
	}
	logAccepted(log, before, now)
	logUnresolved(log, before, now)
}

func answered(endpoints int) string {
	if endpoints == 1 {
		return "its readiness endpoint has answered"
	}
	return fmt.Sprintf("all %d readiness endpoints have answered", endpoints)
}

func inForceText(e report.EgressProxy) string {
	if none(e.Accepted) {
		return "none is in force"
	}
	return "the last accepted one stays in force"
}

func none(s report.EgressSetting) bool { return s.HTTPProxy == "" && s.HTTPSProxy == "" }

func logAccepted(log *slog.Logger, before, now report.EgressProxy) {
	if before.AcceptedAt.Equal(now.AcceptedAt) && before.Accepted == now.Accepted {
		return
	}
	switch {
	case isRestored(before, now) && !none(now.Accepted):
		log.Info("the egress proxy stays in force that was accepted before this start, at "+now.AcceptedAt.UTC().Format(time.RFC3339), egressAttrs("egress-accepted", now.Accepted)...)
	case !none(now.Accepted):
		log.Info("the egress proxy is accepted", egressAttrs("egress-accepted", now.Accepted)...)
	case !none(before.Accepted):
		log.Info("no egress proxy is asked for any more", egressAttrs("egress-accepted", now.Accepted)...)
	}
}

// isRestored holds for what an earlier run has accepted, at the first report of this one.
func isRestored(before, now report.EgressProxy) bool {
	return before.Upstream == "" && now.AcceptedAt.Before(now.Since)
}

func egressAttrs(event string, s report.EgressSetting) []any {
	return []any{
		slog.String("event", event), slog.String("http_proxy", s.HTTPProxy), slog.String("https_proxy", s.HTTPSProxy),
		slog.String("source", s.Source), slog.Int("trusted_cas", s.TrustedCAs),
	}
}

// logUnresolved names each proxy whose name cannot be resolved.
func logUnresolved(log *slog.Logger, before, now report.EgressProxy) {
	said := make(map[string]bool)
	for _, t := range before.Routes {
		said[t.Error] = true
	}
	for _, t := range now.Routes {
		if said[t.Error] || t.Error == "" {
			continue
		}
		said[t.Error] = true
		what := "challenges fail until it is"
		if len(t.Addresses) > 0 {
			what = "the last addresses stay in use"
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "the egress proxy's name cannot be resolved, "+what+"; trying again",
			slog.String("event", "egress-resolve"), slog.String("proxy", t.Proxy), slog.String("error", t.Error))
	}
}

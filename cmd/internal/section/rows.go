// SPDX-License-Identifier: Apache-2.0

package section

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func describeTable(t report.Table) string {
	switch {
	case t.Error != "":
		return "unknown: " + t.Error
	case !t.Present:
		return "absent"
	case !t.Owned:
		return "present, but not owned by this process"
	}
	if len(t.Elements) == 0 {
		return "inet http01-proxyd present, empty: this host holds no API VIP"
	}
	return fmt.Sprintf("inet http01-proxyd present, redirects port 80 of %s to port %d",
		result.JoinAddresses(t.Elements), t.Port)
}

func describeUpstream(u report.Upstream, now time.Time) (level Level, text string) {
	switch {
	case u.Reachable:
		return Good, fmt.Sprintf("%v reachable, checked %s ago", u.Address, report.Age(now.Sub(u.Checked)))
	case u.Checked.IsZero():
		return Neutral, fmt.Sprintf("%v not checked yet", u.Address)
	default:
		return Bad, u.Error
	}
}

// describeCertificate describes the remaining lifetime, and the age of that information.
func describeCertificate(c report.Certificate, now time.Time) (level Level, text string) {
	subject := cmp.Or(c.Name, "without SNI") + " at " + c.Address
	checked := fmt.Sprintf("checked %s ago", report.Age(now.Sub(c.Checked)))
	if c.Error != "" {
		return Bad, fmt.Sprintf("%s: %s (%s)", subject, c.Error, checked)
	}
	until := fmt.Sprintf("until %s, by %q, %s", c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), c.Issuer, checked)
	left := fmt.Sprintf("%s left of %s", report.Age(c.NotAfter.Sub(now)), report.Age(c.NotAfter.Sub(c.NotBefore)))
	if renewal := c.DescribeRenewal(); renewal != "" {
		until += "; " + renewal
	}
	if c.FailedRenewals > 0 {
		until += "; fix the cause that http01-proxyd check reports, then run cmctl renew"
	}
	level = Bad
	switch c.Stage(now) {
	case report.CertificateFresh:
		level = Good
		if c.FailedRenewals > 0 {
			level = Warning
		}
	case report.CertificateRenewalLate:
		level, left = Warning, "only "+left
	case report.CertificateUrgent:
		left = "only " + left
	case report.CertificateExpired:
		left = fmt.Sprintf("EXPIRED %s ago", report.Age(now.Sub(c.NotAfter)))
	case report.CertificateNotYetValid:
		left = "NOT YET VALID for " + report.Age(c.NotBefore.Sub(now))
	}
	return level, fmt.Sprintf("%s: %s, %s", subject, left, until)
}

// describeVIP adds to the state of a VIP what tests between hosts have shown.
func describeVIP(r report.Report, v report.VIP, now time.Time) (level Level, text string) {
	text = fmt.Sprintf("%v %s", v.Address, v.State)
	t, shown := r.DescribeTests(v, now)
	if shown != "" {
		text += ", " + shown
	}
	switch {
	case t.Cause != "":
		return Bad, text
	case t.Result == report.VIPAnswered:
		return Good, text
	case t.Result != "":
		return Warning, text
	}
	return "", text
}

func describeSelfTest(t report.SelfTest, now time.Time) (level Level, text string) {
	checked := fmt.Sprintf("checked %s ago", report.Age(now.Sub(t.Checked)))
	if t.OK {
		return Good, fmt.Sprintf("%v: a request for an unknown challenge reaches the ingress, %s", t.VIP, checked)
	}
	return Bad, fmt.Sprintf("%v: %s: %s (since %s, %s)", t.VIP, t.Cause, t.Error, report.Age(now.Sub(t.Since)), checked)
}

func describeTrust(t report.Trust, now time.Time) (level Level, text string) {
	reason, message := t.Evaluate()
	if !t.Since.IsZero() {
		message += fmt.Sprintf(", since %s ago", report.Age(now.Sub(t.Since)))
	}
	if t.IgnoredTotal > 0 && !t.NoUsableCertificate {
		message += fmt.Sprintf("; ignored: %s, see the journal", report.Count(t.IgnoredTotal, "certificate"))
	}
	switch {
	case reason == report.NotRequired:
		return Neutral, message
	case reason != report.TrustInForce && reason != report.SystemTrust:
		return Bad, message
	case t.IgnoredTotal > 0 && t.Kind == report.TrustAdmin:
		return Warning, message
	default:
		return Good, message
	}
}

func describeEgress(e report.EgressProxy, now time.Time) (level Level, text string) {
	reason, message := e.Evaluate()
	switch reason {
	case report.EgressNotConfigured:
		return Neutral, message
	case report.EgressNotReady:
		message += "; configured " + report.Age(now.Sub(e.Since)) + " ago"
		if !e.NextCheck.IsZero() {
			message += ", next check in " + report.Age(max(0, e.NextCheck.Sub(now)))
		}
		return Warning, message
	case report.EgressInvalid:
		return Bad, message
	default:
		if slices.ContainsFunc(e.Routes, func(r report.EgressRoute) bool { return r.Error != "" }) {
			return Warning, message
		}
		return Good, message
	}
}

func describeConfig(c report.Config) (level Level, text string) {
	switch {
	case c.Error != "" && c.Source == "none":
		return Bad, "none in use: " + c.Path + " is rejected"
	case c.Error != "":
		return Bad, "the last good one is in use: " + c.Path + " is rejected"
	case c.Source == "default":
		return "", "defaults (no " + c.Path + ")"
	default:
		return "", c.Path
	}
}

// describeHosts describes for which names challenges are accepted. Any name is a note: clients
// then reach each route through the VIP.
func describeHosts(h report.AcceptedHosts) (level Level, text string) {
	if !h.Limited() {
		level = Neutral
	}
	return level, h.String()
}

func describeMetrics(m report.Metrics) (level Level, text string) {
	switch {
	case m.Address == "":
		return Neutral, "not served: metrics.listenAddress is not set"
	case m.Served:
		return Good, "served on " + m.Address
	case m.Error == "":
		return Neutral, "exporter starting on " + m.Address
	default:
		return Bad, fmt.Sprintf("not served on %s: %s", m.Address, m.Error)
	}
}

func describeEvents(e report.Events) string {
	text := fmt.Sprintf("VIP transitions: %d, table repairs: %d", e.VIPTransitions, e.TableRepairs)
	if len(e.Reloads) > 0 {
		text += ", reloads: " + formatCounts(e.Reloads)
	}
	return text
}

// describeChallenges lists the number of forwarded requests and the rejections by reason.
func describeChallenges(c report.Challenges) string {
	parts := []string{fmt.Sprintf("%d forwarded", c.Total)}
	for _, reason := range slices.Sorted(maps.Keys(c.Rejected)) {
		parts = append(parts, fmt.Sprintf("%d rejected as %s", c.Rejected[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// formatCounts returns "2 this, 1 that" in a stable order.
func formatCounts(counts map[string]uint64) string {
	parts := make([]string, 0, len(counts))
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(parts, ", ")
}

// describeChallenge describes the result of a challenge, with the whole diagnosis. The
// table of the last challenges truncates it.
func describeChallenge(c report.RecentChallenge, now time.Time) (level Level, text string) {
	shown := c.Detail
	switch {
	case shown != "":
	case c.Status == 0:
		shown = "the client disconnected before the response"
	case c.Upstream == "":
		shown = "answered " + statusText(c)
	default:
		shown = fmt.Sprintf("%s answered %s", c.Upstream, statusText(c))
	}
	return ofChallenge(c), fmt.Sprintf("%s ago: %s", report.Age(now.Sub(c.Time)), shown)
}

// statusText returns the status code that the client received.
func statusText(c report.RecentChallenge) string {
	if c.Status == 0 {
		return "none"
	}
	return strconv.Itoa(c.Status)
}

// ofChallenge shows whether a validator accepts the response.
func ofChallenge(c report.RecentChallenge) Level {
	switch c.Status {
	case 200:
		return Good
	case 0, 404:
		return Warning
	default:
		return Bad
	}
}

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
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
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

// The labels of the rows that the status of a cluster has too.
const (
	ingressLabel     = "Ingress"
	challengeLabel   = "Last challenge"
	certificateLabel = "Certificate"
)

// describer describes the parts of a report at a time. A part that takes part in an exchange is
// marked as good only if no exchange fails.
type describer struct {
	report   report.Report
	now      time.Time
	problems []findings.Finding
}

// unlessFailing is Good, or no level if an exchange fails.
func (d describer) unlessFailing() Level {
	if slices.ContainsFunc(d.problems, func(f findings.Finding) bool {
		return findings.IsCause(string(f.ID)) || f.ID == findings.SelfTestFailed
	}) {
		return ""
	}
	return Good
}

func (d describer) ago(t time.Time) string { return report.Age(d.now.Sub(t)) + " ago" }

// withMore keeps the text of a row for a short status, and continues it for all others.
func (r Row) withMore(more string) Row {
	r.Short = r.Text
	r.Text += more
	return r
}

// faulty marks a row with the first of these findings, if there is one.
func faulty(row Row, found []findings.Finding) Row {
	if len(found) > 0 {
		row.Level = OfProblem(string(found[0].Level))
		row.Text += reference(string(found[0].ID))
	}
	return row
}

// reference refers to the finding that explains a row; empty without one.
func reference(id string) string {
	if id == "" {
		return ""
	}
	return " [" + id + "]"
}

func (d describer) upstream(u report.Upstream) Row {
	row := Row{Label: ingressLabel, Text: u.Address.String()}
	switch {
	case u.Reachable:
		row.Level, row.Text = d.unlessFailing(), row.Text+" accepts connections"
		return row.withMore(", checked " + d.ago(u.Checked))
	case u.Checked.IsZero() && slices.ContainsFunc(d.report.VIPs, report.VIP.IsHeld):
		row.Level, row.Text = Neutral, row.Text+" not checked yet"
		return row
	case u.Checked.IsZero():
		row.Level, row.Text = Neutral, row.Text+" not checked while this host holds no API VIP"
		return row
	}
	row.Text += " fails"
	return faulty(row, verdict.Upstream(u)).withMore(", checked " + d.ago(u.Checked))
}

// certificate describes the remaining lifetime, and the age of that information.
func (d describer) certificate(c report.Certificate) Row {
	row := Row{Label: certificateLabel, Level: Good, Text: cmp.Or(c.Name, "without SNI") + ": "}
	left := fmt.Sprintf("%s left of %s", report.Age(c.NotAfter.Sub(d.now)), report.Age(c.NotAfter.Sub(c.NotBefore)))
	until := c.NotAfter.UTC().Format("2006-01-02 15:04 MST")
	switch stage := c.Stage(d.now); {
	case c.Error != "":
		row.Text += "cannot be read"
	case stage == report.CertificateExpired:
		row.Text += fmt.Sprintf("EXPIRED %s, on %s", d.ago(c.NotAfter), until)
	case stage == report.CertificateNotYetValid:
		row.Text += "NOT YET VALID for " + report.Age(c.NotBefore.Sub(d.now))
	case stage == report.CertificateFresh:
		row.Text += left + ", until " + until
	default:
		row.Text += "only " + left + ", until " + until
	}
	more := fmt.Sprintf("; presented by %s, issued by %q, checked %s", c.Address, c.Issuer, d.ago(c.Checked))
	if c.Error != "" {
		more = fmt.Sprintf("; requested from %s %s", c.Address, d.ago(c.Checked))
	}
	if renewal := c.DescribeRenewal(d.now); renewal != "" {
		more += "; " + renewal
	}
	if c.Error != "" {
		row.Level = Neutral // if another host holds the VIP
	}
	return faulty(row, verdict.HostCertificate(d.report, c, d.now)).withMore(more)
}

// vip adds to the state of a VIP what tests between hosts have shown.
func (d describer) vip(v report.VIP) Row {
	row := Row{Label: "API VIP", Text: v.Address.String()}
	switch v.State {
	case report.VIPHeld:
		row.Text += " held here"
	case report.VIPStandby:
		row.Text += " not on this host"
	case report.VIPNotRequired:
		row.Text += " needs no redirect"
	default:
		row.Text += " " + string(v.State)
	}
	if !v.Since.IsZero() {
		row.Text += " for " + report.Age(d.now.Sub(v.Since))
	}
	t, shown := d.report.DescribeTests(v, d.now)
	if found := verdict.VIPTests(t); len(found) > 0 {
		return faulty(row, found).withMore(": " + shown)
	}
	if shown != "" {
		row.Text += ", " + shown
	}
	if t.Result != "" { // a finding after the third failure
		row.Level = Neutral
	}
	if t.Result == report.VIPAnswered {
		row.Level = Good
	}
	return row
}

func (d describer) selfTest(t report.SelfTest) Row {
	row := Row{
		Label: "Self-test", Level: d.unlessFailing(),
		Text: fmt.Sprintf("%v: a request for an unknown challenge reaches the ingress", t.VIP),
	}
	if !t.OK {
		row.Text = fmt.Sprintf("%v: fails for %s", t.VIP, report.Age(d.now.Sub(t.Since)))
		row = faulty(row, verdict.SelfTests(t))
	}
	return row.withMore(", checked " + d.ago(t.Checked))
}

func (d describer) trust(t report.Trust) Row {
	reason, message := t.Evaluate()
	if !t.Since.IsZero() {
		message += " for " + report.Age(d.now.Sub(t.Since))
	}
	row := Row{Label: "Trust", Level: Good, Text: message}
	if reason == report.NotRequired {
		row.Level = Neutral
	}
	if found := verdict.Trust(t); len(found) > 0 {
		row.Text = string(reason)
		return faulty(row, found).withMore(": " + message)
	}
	return row
}

func (d describer) egress(e report.EgressProxy) Row {
	reason, message := e.Evaluate()
	row := Row{Label: "Egress proxy", Level: Good, Text: message}
	if reason == report.EgressNotConfigured {
		row.Level = Neutral
		return row
	}
	if reason == report.EgressNotReady {
		row.Level = Neutral
		message += "; configured " + d.ago(e.Since)
		if !e.NextCheck.IsZero() {
			message += ", next check in " + report.Age(max(0, e.NextCheck.Sub(d.now)))
		}
	}
	if found := verdict.Egress(e); len(found) > 0 {
		row.Text = string(reason)
		return faulty(row, found).withMore(": " + message)
	}
	through := slices.DeleteFunc(slices.Clone(d.problems), func(f findings.Finding) bool {
		return !strings.HasPrefix(string(f.ID), "egress-")
	})
	if len(through) > 0 {
		row.Text = "requests through it fail"
		return faulty(row, through).withMore(": " + message)
	}
	if reason == report.EgressAccepted {
		row.Level = d.unlessFailing()
	}
	return row
}

func describeConfig(c report.Config) Row {
	row := Row{Label: "Configuration", Text: c.Path}
	switch {
	case c.Error != "" && c.Source == "none":
		row.Level, row.Text = Bad, "none in use: "+c.Path+" is rejected"
	case c.Error != "":
		row.Level, row.Text = Bad, "the last good one is in use: "+c.Path+" is rejected"
	case c.Source == "default":
		row.Text = "defaults (no " + c.Path + ")"
	}
	return row
}

// describeHosts describes for which names challenges are accepted. Any name is a note: clients
// then reach each route through the VIP.
func describeHosts(h report.AcceptedHosts) Row {
	row := Row{Label: "Host names", Text: h.String()}
	if !h.Limited() {
		row.Level = Neutral
	}
	return row
}

func describeMetrics(m report.Metrics) Row {
	row := Row{Label: "Metrics", Level: Neutral}
	switch {
	case m.Address == "":
		row.Text = "not served: metrics.listenAddress is not set"
	case m.Served:
		row.Level, row.Text = Good, "served on "+m.Address
	case m.Error == "":
		row.Text = "exporter starting on " + m.Address
	default:
		row.Text = "not served on " + m.Address
		return faulty(row, verdict.Metrics(m)).withMore(": " + m.Error)
	}
	return row
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

// challenge describes the result of a challenge.
func (d describer) challenge(c report.RecentChallenge) Row {
	row := Row{Label: challengeLabel, Level: OfChallenge(c), Text: "answered " + statusText(c)}
	if c.Status == 0 {
		row.Text = "no response, because the client disconnected"
	}
	if c.Host != "" {
		row.Text += " for " + c.Host
	}
	row.Text += ", " + d.ago(c.Time)
	found := verdict.Challenge(d.report, c, d.now)
	if row.Level == Bad && len(found) == 0 { // it is over
		row.Level = Neutral
	}
	return faulty(row, found).withMore(fmt.Sprintf(", requested by %s (%s)", c.Client, c.ClientKind))
}

// statusText returns the status code that the client received.
func statusText(c report.RecentChallenge) string {
	if c.Status == 0 {
		return "none"
	}
	return strconv.Itoa(c.Status)
}

// OfChallenge shows whether a validator accepts the response. Anybody can request an unknown token.
func OfChallenge(c report.RecentChallenge) Level {
	switch c.Status {
	case 200:
		return Good
	case 0, 404:
		return Neutral
	default:
		return Bad
	}
}

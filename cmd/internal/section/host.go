// SPDX-License-Identifier: Apache-2.0

package section

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Host returns the sections of a host: how it is now, and what happened. A service that
// does not answer has none.
func Host(r report.Report, now time.Time) []Section {
	if reason := r.Condition().Reason; reason == report.NotReachable || reason == report.NotRunning {
		return nil
	}
	d := describer{r, now, verdict.Problems(r, now)}
	return []Section{
		{"Now", d.rows(), tables(ruleCounters(r.Table))},
		{"Earlier", nil, tables(requests(r.Traffic), Challenges(r.Challenges, now), d.causes())},
		{"Changes", nil, tables(changes(r))},
	}
}

// tables returns those with a row.
func tables(all ...Table) []Table {
	return slices.DeleteFunc(all, func(t Table) bool { return len(t.Rows) == 0 })
}

// rows are the rows below the state.
func (d describer) rows() []Row {
	r := d.report
	var all []Row
	for _, v := range r.VIPs {
		all = append(all, d.vip(v))
	}
	for _, u := range r.Upstreams {
		all = append(all, d.upstream(u))
	}
	if recent := r.Challenges.Recent; len(recent) > 0 {
		all = append(all, d.challenge(recent[len(recent)-1]))
	} else {
		all = append(all, Row{Label: challengeLabel, Level: Neutral, Text: "none since the service started"})
	}
	named := slices.ContainsFunc(r.Certificates, func(c report.Certificate) bool { return c.Name != "" })
	for _, c := range verdict.DistinctCertificates(r.Certificates) {
		row := d.certificate(c)
		row.Detail = named && c.Name == ""
		all = append(all, row)
	}
	detail := func(rows ...Row) {
		for _, row := range rows {
			row.Detail = true
			all = append(all, row)
		}
	}
	for _, t := range r.SelfTests {
		detail(d.selfTest(t))
	}
	if r.Trust.Kind != "" {
		detail(d.trust(r.Trust))
	}
	if r.EgressProxy.Upstream != "" {
		detail(d.egress(r.EgressProxy))
	}
	detail(describeConfig(r.Config))
	if r.Config.Error != "" {
		detail(Row{Text: r.Config.Error})
	}
	if r.AcceptedHosts.Source != "" {
		detail(describeHosts(r.AcceptedHosts))
	}
	detail(describeMetrics(r.Metrics), Row{Label: "Table", Text: describeTable(r.Table)})
	detail(Row{Label: "Events", Text: describeEvents(r.Events)}, Row{Label: "Challenges", Text: describeChallenges(r.Challenges)})
	if failed := r.Traffic.UpstreamErrors; len(failed) > 0 {
		detail(Row{Label: "Failed", Text: formatCounts(failed)})
	}
	if r.Version != "" {
		detail(Row{Label: "Version", Text: report.ShortVersion(r.Version)})
	}
	return all
}

// ruleCounters are the counters of the rules. Only the first packet of a connection passes
// a nat chain.
func ruleCounters(t report.Table) Table {
	counters := Table{
		"Packets that a rule matched", []Column{
			{Title: "Packets", Numeric: true}, {Title: "Chain"}, {Title: "Rule", MinWidth: len("RULE")},
		}, nil,
	}
	for _, c := range t.Counters {
		counters.Rows = append(counters.Rows, []Cell{
			{Text: strconv.FormatUint(c.Packets, 10)}, {Text: c.Chain}, {Text: cmp.Or(c.Rule, "(not ours)")},
		})
	}
	return counters
}

// maxClients bounds the columns of a table. Those that a hostile host invents are one.
const maxClients = 16

// requests are the requests by outcome and client kind. A rejection is included only if a
// known client was rejected; the row Challenges has all rejections.
func requests(t report.Traffic) Table {
	outcomes, clients := report.Outcomes(), report.ClientKinds()
	for _, r := range report.Rejections() {
		outcomes = append(outcomes, report.Outcome(r))
	}
	counts := map[report.RequestCount]uint64{} // the keys have Count 0
	for _, n := range t.Requests {
		if !slices.Contains(clients, n.ClientKind) && len(clients) == maxClients {
			n.ClientKind = report.OtherClient
		}
		counts[report.RequestCount{Outcome: n.Outcome, ClientKind: n.ClientKind}] += n.Count
		if !slices.Contains(outcomes, n.Outcome) { // of another release
			outcomes = append(outcomes, n.Outcome)
		}
		if !slices.Contains(clients, n.ClientKind) {
			clients = append(clients, n.ClientKind)
		}
	}
	count := func(o report.Outcome, c report.ClientKind) uint64 {
		return counts[report.RequestCount{Outcome: o, ClientKind: c}]
	}
	outcomes = slices.DeleteFunc(outcomes, func(o report.Outcome) bool {
		return !slices.ContainsFunc(clients, func(c report.ClientKind) bool {
			return count(o, c) > 0 && (c != report.OtherClient || !report.Rejection(o).Known())
		})
	})
	clients = slices.DeleteFunc(clients, func(c report.ClientKind) bool {
		return !slices.ContainsFunc(outcomes, func(o report.Outcome) bool { return count(o, c) > 0 })
	})
	table := Table{"Requests by outcome and client", []Column{{Title: "Outcome"}}, nil}
	for _, c := range clients {
		table.Columns = append(table.Columns, Column{Title: string(c), Numeric: true})
	}
	for _, o := range outcomes {
		row := []Cell{{Text: string(o)}}
		for _, c := range clients {
			row = append(row, Cell{Text: strconv.FormatUint(count(o, c), 10)})
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// Challenges are the last challenges, newest first.
func Challenges(c report.Challenges, now time.Time) Table {
	last := Table{
		"The last challenges, newest first", []Column{
			{Title: "Age"},
			{Title: "Status"},
			{Title: "Detail", MinWidth: 12},
			{Title: "Host", Optional: true},
			{Title: "Client", Optional: true},
			{Title: "Token", Optional: true},
			{Title: "MS", Numeric: true, Optional: true},
			{Title: "Address", Optional: true},
			{Title: "Upstream", Optional: true},
		}, nil,
	}
	for _, one := range slices.Backward(c.Recent) {
		last.Rows = append(last.Rows, []Cell{
			{Text: report.Age(now.Sub(one.Time)), Time: one.Time},
			{Text: statusText(one), Level: OfChallenge(one)},
			{Text: cmp.Or(strings.TrimSpace(reference(one.Cause)), one.Detail)},
			{Text: one.Host},
			{Text: string(one.ClientKind)},
			{Text: one.TokenPrefix + "…"},
			{Text: fmt.Sprintf("%.1f", one.DurationMS)},
			{Text: one.Client},
			{Text: one.Upstream},
		})
	}
	return last
}

// causes explains the causes of the last challenges that no problem explains, each once, with the text of
// the newest one.
func (d describer) causes() Table {
	legend := Table{"Causes of failed challenges", []Column{{Title: "Cause"}, {Title: "Meaning", MinWidth: 20}}, nil}
	known := map[string]bool{"": true}
	for _, f := range d.problems {
		known[string(f.ID)] = true
	}
	for _, one := range slices.Backward(d.report.Challenges.Recent) {
		if !known[one.Cause] {
			known[one.Cause] = true
			legend.Rows = append(legend.Rows, []Cell{
				{Text: "[" + one.Cause + "]"}, {Text: verdict.Response(one)[0].Message},
			})
		}
	}
	return legend
}

// changes are the last changes of VIPs and conditions, newest first.
func changes(r report.Report) Table {
	t := Table{
		"The last changes of VIPs and conditions, newest first",
		[]Column{{Title: "Time (UTC)"}, {Title: "VIP or condition"}, {Title: "From"}, {Title: "To"}},
		nil,
	}
	for _, c := range slices.Backward(r.History) {
		t.Rows = append(t.Rows, []Cell{
			{Text: c.Time.UTC().Format("2006-01-02 15:04:05.000")},
			{Text: c.Subject()},
			{Text: cmp.Or(c.From, "–")},
			{Text: cmp.Or(c.To, "not configured")},
		})
	}
	return t
}

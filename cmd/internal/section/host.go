// SPDX-License-Identifier: Apache-2.0

package section

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Host returns the sections of a host: how it is now, and what happened. A service that
// does not answer has none.
func Host(r report.Report, now time.Time) []Section {
	if r.Condition().Reason == report.NotReachable {
		return nil
	}
	return []Section{
		{"Now", parts(r, now), tables(ruleCounters(r.Table))},
		{"Earlier", nil, tables(requests(r.Traffic), challenges(r.Challenges, now))},
	}
}

// tables returns those with a row.
func tables(all ...Table) []Table {
	return slices.DeleteFunc(all, func(t Table) bool { return len(t.Rows) == 0 })
}

// parts are the rows below the state.
func parts(r report.Report, now time.Time) []Row {
	var rows []Row
	row := func(label string) func(Level, string) {
		return func(level Level, text string) { rows = append(rows, Row{label, level, text}) }
	}
	for _, v := range r.VIPs {
		row("API VIP")(describeVIP(r, v, now))
	}
	row("Table")("", describeTable(r.Table))
	for _, u := range r.Upstreams {
		row("Upstream")(describeUpstream(u, now))
	}
	for _, c := range r.Certificates {
		row("Certificate")(describeCertificate(c, now))
	}
	for _, t := range r.SelfTests {
		row("Self-test")(describeSelfTest(t, now))
	}
	if r.Trust.Kind != "" {
		row("Trust")(describeTrust(r.Trust, now))
	}
	if r.EgressProxy.Upstream != "" {
		row("Egress proxy")(describeEgress(r.EgressProxy, now))
	}
	row("Configuration")(describeConfig(r.Config))
	if r.Config.Error != "" {
		row("")("", r.Config.Error)
	}
	if r.AcceptedHosts.Source != "" {
		row("Host names")(describeHosts(r.AcceptedHosts))
	}
	row("Metrics")(describeMetrics(r.Metrics))
	if r.Version != "" {
		row("Version")("", r.Version)
	}
	row("Events")("", describeEvents(r.Events))
	row("Challenges")("", describeChallenges(r.Challenges))
	if failed := r.Traffic.UpstreamErrors; len(failed) > 0 {
		row("Failed")("", formatCounts(failed))
	}
	if recent := r.Challenges.Recent; len(recent) > 0 {
		row("Last challenge")(describeChallenge(recent[len(recent)-1], now))
	}
	return rows
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
	table := Table{"Requests by outcome and client", []Column{{Title: "Requests"}}, nil}
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

// challenges are the last challenges, newest first.
func challenges(c report.Challenges, now time.Time) Table {
	last := Table{
		"The last challenges, newest first", []Column{
			{Title: "Age"},
			{Title: "Status"},
			{Title: "MS", Numeric: true, Optional: true},
			{Title: "Host", MinWidth: 12},
			{Title: "Token", MinWidth: 9},
			{Title: "Client", MinWidth: 8},
			{Title: "Address", MinWidth: 12, Optional: true},
			{Title: "Upstream", MinWidth: 12, Optional: true},
			{Title: "Detail", MinWidth: 12},
		}, nil,
	}
	for _, one := range slices.Backward(c.Recent) {
		last.Rows = append(last.Rows, []Cell{
			{Text: report.Age(now.Sub(one.Time)), Time: one.Time},
			{Text: statusText(one), Level: ofChallenge(one)},
			{Text: fmt.Sprintf("%.1f", one.DurationMS)},
			{Text: one.Host},
			{Text: one.TokenPrefix + "…"},
			{Text: string(one.ClientKind)},
			{Text: one.Client},
			{Text: one.Upstream},
			{Text: one.Detail},
		})
	}
	return last
}

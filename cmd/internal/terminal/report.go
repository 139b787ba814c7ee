// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// WriteReport writes the report as text: the state, the counters, and the last
// challenges, newest first.
func WriteReport(w io.Writer, r report.Report, now time.Time, view View) error {
	p := &page{view: view}
	p.writeState(r.Condition(), now)
	if r.Condition().Reason != report.NotReachable {
		p.writeParts(r, now)
		p.writeRuleCounters(r.Table)
		p.writeRequests(r.Traffic)
		p.writeChallenges(r.Challenges, now)
	}
	return p.writeTo(w)
}

// The marks. A row without a mark is neutral.
func markOK() span      { return span{"✓", green} }
func markWarning() span { return span{"!", yellow} }
func markError() span   { return span{"✗", red} }
func markUnused() span  { return span{"-", faint} }

func (p *page) writeState(c report.Condition, now time.Time) {
	p.writeLine(span{text: pad("State:", labelWidth)}, conditionMark(c), span{text: " "}, span{string(c.Reason), bold},
		span{text: fmt.Sprintf(" (%s=%s for %s)", c.Type, c.Status, report.Age(now.Sub(c.LastTransitionTime)))})
	if c.Message != "" {
		p.writeRow("Message", span{}, c.Message)
	}
}

// conditionMark distinguishes success, states that somebody configured, and errors.
func conditionMark(c report.Condition) span {
	switch {
	case c.Status == "True":
		return markOK()
	case c.Reason == report.Starting || c.Reason == report.Disabled || c.Reason == report.ExternalLoadBalancer || c.Status != "False":
		return markWarning()
	default:
		return markError()
	}
}

// writeParts writes the rows below the state.
func (p *page) writeParts(r report.Report, now time.Time) {
	for _, v := range r.VIPs {
		mark, text := describeVIP(r, v, now)
		p.writeRow("API VIP", mark, text)
	}
	p.writeRow("Table", span{}, describeTable(r.Table))
	for _, u := range r.Upstreams {
		mark, text := describeUpstream(u, now)
		p.writeRow("Upstream", mark, text)
	}
	for _, c := range r.Certificates {
		mark, text := describeCertificate(c, now)
		p.writeRow("Certificate", mark, text)
	}
	for _, t := range r.SelfTests {
		mark, text := describeSelfTest(t, now)
		p.writeRow("Self-test", mark, text)
	}
	if r.Trust.Kind != "" {
		mark, text := describeTrust(r.Trust, now)
		p.writeRow("Trust", mark, text)
	}
	if r.EgressProxy.Upstream != "" {
		mark, text := describeEgress(r.EgressProxy, now)
		p.writeRow("Egress proxy", mark, text)
	}
	mark, text := describeConfig(r.Config)
	p.writeRow("Configuration", mark, text)
	for problem := range strings.Lines(r.Config.Error) {
		p.writeRow("", span{}, strings.TrimSuffix(problem, "\n"))
	}
	mark, text = describeMetrics(r.Metrics)
	p.writeRow("Metrics", mark, text)
	if r.Version != "" {
		p.writeRow("Version", span{}, r.Version)
	}
	p.writeRow("Events", span{}, describeEvents(r.Events))
	p.writeRow("Challenges", span{}, describeChallenges(r.Challenges))
	if failed := failureCounts(r.Traffic); len(failed) > 0 {
		p.writeRow("Failed", span{}, formatCounts(failed))
	}
	if recent := r.Challenges.Recent; len(recent) > 0 {
		mark, text := describeChallenge(recent[len(recent)-1], now)
		p.writeRow("Last challenge", mark, text)
	}
}

// writeRuleCounters writes the counters of the rules. Only the first packet of a
// connection passes a nat chain.
func (p *page) writeRuleCounters(t report.Table) {
	if len(t.Counters) == 0 {
		return
	}
	columns := []column{{title: "PACKETS", rightAligned: true}, {title: "CHAIN"}, {title: "RULE", minWidth: len("RULE")}}
	rows := make([][]span, 0, len(t.Counters))
	for _, c := range t.Counters {
		rule := c.Rule
		if rule == "" {
			rule = "(not ours)"
		}
		rows = append(rows, []span{{text: strconv.FormatUint(c.Packets, 10)}, {text: c.Chain}, {text: rule}})
	}
	p.writeTable(columns, rows)
}

// writeRequests writes the requests by outcome and client kind. A rejection is included
// only if a known client was rejected; the row Challenges has all rejections.
func (p *page) writeRequests(t report.Traffic) {
	var outcomes []report.Outcome
	var clients []report.ClientKind
	counts := map[report.Outcome]map[report.ClientKind]uint64{}
	fromKnown := map[report.Outcome]bool{}
	for _, n := range t.Requests {
		if n.Count > 0 && n.ClientKind != report.OtherClient {
			fromKnown[n.Outcome] = true
		}
	}
	for _, n := range t.Requests {
		if n.Count == 0 || report.Rejection(n.Outcome).Known() && !fromKnown[n.Outcome] {
			continue
		}
		if counts[n.Outcome] == nil {
			counts[n.Outcome] = map[report.ClientKind]uint64{}
			outcomes = append(outcomes, n.Outcome)
		}
		if !slices.Contains(clients, n.ClientKind) {
			clients = append(clients, n.ClientKind)
		}
		counts[n.Outcome][n.ClientKind] += n.Count
	}
	if len(outcomes) == 0 {
		return
	}
	sortByOrder(outcomes, report.Outcomes())
	sortByOrder(clients, report.ClientKinds())
	columns := []column{{title: "REQUESTS"}}
	for _, c := range clients {
		columns = append(columns, column{title: string(c), rightAligned: true})
	}
	rows := make([][]span, 0, len(outcomes))
	for _, o := range outcomes {
		row := []span{{text: string(o)}}
		for _, c := range clients {
			row = append(row, span{text: strconv.FormatUint(counts[o][c], 10)})
		}
		rows = append(rows, row)
	}
	p.writeTable(columns, rows)
}

// sortByOrder sorts list by the position in order. Other values follow, sorted by name.
func sortByOrder[T ~string](list, order []T) {
	position := func(v T) int {
		if i := slices.Index(order, v); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(list, func(a, b T) int {
		if d := position(a) - position(b); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
}

// writeChallenges writes the last challenges, newest first.
func (p *page) writeChallenges(c report.Challenges, now time.Time) {
	if len(c.Recent) == 0 {
		return
	}
	columns := []column{
		{title: "AGE"},
		{title: "STATUS"},
		{title: "MS", rightAligned: true, optional: true},
		{title: "HOST", minWidth: 12},
		{title: "TOKEN", minWidth: 9},
		{title: "CLIENT", minWidth: 8},
		{title: "ADDRESS", minWidth: 12, optional: true},
		{title: "UPSTREAM", minWidth: 12, optional: true},
		{title: "DETAIL", minWidth: 12},
	}
	rows := make([][]span, 0, len(c.Recent))
	for _, one := range slices.Backward(c.Recent) {
		rows = append(rows, []span{
			{text: report.Age(now.Sub(one.Time))},
			{statusText(one), challengeMark(one).style},
			{text: fmt.Sprintf("%.1f", one.DurationMS)},
			{text: one.Host},
			{text: one.TokenPrefix + "…"},
			{text: string(one.ClientKind)},
			{text: one.Client},
			{text: one.Upstream},
			{text: one.Detail},
		})
	}
	p.writeTable(columns, rows)
}

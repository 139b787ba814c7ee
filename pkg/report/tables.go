// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writeRules prints what the rules have counted. Of a connection only the first
// packet crosses a nat chain.
func (r Report) writeRules(p *page) {
	if len(r.Table.Counters) == 0 {
		return
	}
	columns := []column{{title: "PACKETS", right: true}, {title: "CHAIN"}, {title: "RULE", least: len("RULE")}}
	rows := make([][]span, 0, len(r.Table.Counters))
	for _, c := range r.Table.Counters {
		rule := c.Rule
		if rule == "" {
			rule = "(not ours)"
		}
		rows = append(rows, []span{{text: strconv.FormatUint(c.Packets, 10)}, {text: c.Chain}, {text: rule}})
	}
	p.table(columns, rows)
}

// writeRequests prints who asked, and what came of it. The sums of what was refused
// stand above: here are those that a validator or a self check was among.
func (r Report) writeRequests(p *page) {
	var outcomes []Outcome
	var askers []Asker
	counts := map[Outcome]map[Asker]uint64{}
	wanted := map[Outcome]bool{}
	for _, n := range r.Traffic.Requests {
		if n.Count > 0 && n.Client != OtherAsker {
			wanted[n.Outcome] = true
		}
	}
	for _, n := range r.Traffic.Requests {
		if n.Count == 0 || Refusal(n.Outcome).Known() && !wanted[n.Outcome] {
			continue
		}
		if counts[n.Outcome] == nil {
			counts[n.Outcome] = map[Asker]uint64{}
			outcomes = append(outcomes, n.Outcome)
		}
		if !slices.Contains(askers, n.Client) {
			askers = append(askers, n.Client)
		}
		counts[n.Outcome][n.Client] += n.Count
	}
	if len(outcomes) == 0 {
		return
	}
	inOrder(outcomes, Outcomes())
	inOrder(askers, Askers())
	columns := []column{{title: "REQUESTS"}}
	for _, a := range askers {
		columns = append(columns, column{title: string(a), right: true})
	}
	rows := make([][]span, 0, len(outcomes))
	for _, o := range outcomes {
		row := []span{{text: string(o)}}
		for _, a := range askers {
			row = append(row, span{text: strconv.FormatUint(counts[o][a], 10)})
		}
		rows = append(rows, row)
	}
	p.table(columns, rows)
}

// inOrder sorts after the order, and what is not of it to the end, by name.
func inOrder[T ~string](list, order []T) {
	place := func(v T) int {
		if i := slices.Index(order, v); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(list, func(a, b T) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
}

// leastChallenges are shown in the lowest terminal, too; above them are an empty
// line and the titles.
const (
	leastChallenges = 3
	tableHead       = 2
)

// writeChallenges prints the last challenges, the newest first, since those are
// what somebody waits for. Below them as many lines are left as it is told.
func (r Report) writeChallenges(p *page, now time.Time, below int) {
	recent := slices.Clone(r.Challenges.Recent)
	if len(recent) == 0 {
		return
	}
	slices.Reverse(recent)
	older := 0
	if p.view.Height > 0 {
		if room := p.view.Height - p.used - tableHead - below; len(recent) > room {
			room = max(leastChallenges, room-1) // one line says how many are left out
			older, recent = len(recent)-min(room, len(recent)), recent[:min(room, len(recent))]
		}
	}
	columns := []column{
		{title: "AGE"},
		{title: "STATUS"},
		{title: "MS", right: true, spare: true},
		{title: "HOST", least: 12},
		{title: "TOKEN", least: 9},
		{title: "ASKER", least: 8},
		{title: "CLIENT", least: 12, spare: true},
		{title: "UPSTREAM", least: 12, spare: true},
		{title: "DETAIL", least: 12},
	}
	rows := make([][]span, 0, len(recent))
	for _, c := range recent {
		rows = append(rows, []span{
			{text: Age(now.Sub(c.Time))},
			{c.answer(), c.mark().ink},
			{text: fmt.Sprintf("%.1f", c.DurationMS)},
			{text: c.Host},
			{text: c.TokenPrefix + "…"},
			{text: string(c.Asker)},
			{text: c.Client},
			{text: c.Upstream},
			{text: c.Detail},
		})
	}
	p.table(columns, rows)
	if older > 0 {
		p.put(span{fmt.Sprintf("… and %d older", older), faint})
	}
}

// answer is what the client got.
func (c ReportChallenge) answer() string {
	if c.Status == 0 {
		return "none"
	}
	return strconv.Itoa(c.Status)
}

// mark tells whether a validator would be content.
func (c ReportChallenge) mark() span {
	switch c.Status {
	case 200:
		return good()
	case 0, 404:
		return poor()
	default:
		return bad()
	}
}

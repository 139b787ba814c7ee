// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writeRuleCounters prints what the rules have counted. Of a connection only the first
// packet crosses a nat chain.
func (r Report) writeRuleCounters(p *page) {
	if len(r.Table.Counters) == 0 {
		return
	}
	columns := []column{{title: "PACKETS", rightAligned: true}, {title: "CHAIN"}, {title: "RULE", minWidth: len("RULE")}}
	rows := make([][]span, 0, len(r.Table.Counters))
	for _, c := range r.Table.Counters {
		rule := c.Rule
		if rule == "" {
			rule = "(not ours)"
		}
		rows = append(rows, []span{{text: strconv.FormatUint(c.Packets, 10)}, {text: c.Chain}, {text: rule}})
	}
	p.writeTable(columns, rows)
}

// writeRequests prints who asked, and what came of it. The sums of what was refused
// stand above: here are those that a validator or a self check was among.
func (r Report) writeRequests(p *page) {
	var outcomes []Outcome
	var askers []ClientKind
	counts := map[Outcome]map[ClientKind]uint64{}
	wanted := map[Outcome]bool{}
	for _, n := range r.Traffic.Requests {
		if n.Count > 0 && n.ClientKind != OtherClient {
			wanted[n.Outcome] = true
		}
	}
	for _, n := range r.Traffic.Requests {
		if n.Count == 0 || Refusal(n.Outcome).Known() && !wanted[n.Outcome] {
			continue
		}
		if counts[n.Outcome] == nil {
			counts[n.Outcome] = map[ClientKind]uint64{}
			outcomes = append(outcomes, n.Outcome)
		}
		if !slices.Contains(askers, n.ClientKind) {
			askers = append(askers, n.ClientKind)
		}
		counts[n.Outcome][n.ClientKind] += n.Count
	}
	if len(outcomes) == 0 {
		return
	}
	sortByOrder(outcomes, Outcomes())
	sortByOrder(askers, ClientKinds())
	columns := []column{{title: "REQUESTS"}}
	for _, a := range askers {
		columns = append(columns, column{title: string(a), rightAligned: true})
	}
	rows := make([][]span, 0, len(outcomes))
	for _, o := range outcomes {
		row := []span{{text: string(o)}}
		for _, a := range askers {
			row = append(row, span{text: strconv.FormatUint(counts[o][a], 10)})
		}
		rows = append(rows, row)
	}
	p.writeTable(columns, rows)
}

// sortByOrder sorts after the order, and what is not of it to the end, by name.
func sortByOrder[T ~string](list, order []T) {
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
		if room := p.view.Height - p.lineCount - tableHead - below; len(recent) > room {
			room = max(leastChallenges, room-1) // one line says how many are left out
			older, recent = len(recent)-min(room, len(recent)), recent[:min(room, len(recent))]
		}
	}
	columns := []column{
		{title: "AGE"},
		{title: "STATUS"},
		{title: "MS", rightAligned: true, optional: true},
		{title: "HOST", minWidth: 12},
		{title: "TOKEN", minWidth: 9},
		{title: "ASKER", minWidth: 8},
		{title: "CLIENT", minWidth: 12, optional: true},
		{title: "UPSTREAM", minWidth: 12, optional: true},
		{title: "DETAIL", minWidth: 12},
	}
	rows := make([][]span, 0, len(recent))
	for _, c := range recent {
		rows = append(rows, []span{
			{text: Age(now.Sub(c.Time))},
			{c.statusText(), c.mark().style},
			{text: fmt.Sprintf("%.1f", c.DurationMS)},
			{text: c.Host},
			{text: c.TokenPrefix + "…"},
			{text: string(c.ClientKind)},
			{text: c.Client},
			{text: c.Upstream},
			{text: c.Detail},
		})
	}
	p.writeTable(columns, rows)
	if older > 0 {
		p.writeLine(span{fmt.Sprintf("… and %d older", older), faint})
	}
}

// statusText is what the client got.
func (c RecentChallenge) statusText() string {
	if c.Status == 0 {
		return "none"
	}
	return strconv.Itoa(c.Status)
}

// mark tells whether a validator would be content.
func (c RecentChallenge) mark() span {
	switch c.Status {
	case 200:
		return markOK()
	case 0, 404:
		return markWarning()
	default:
		return markError()
	}
}

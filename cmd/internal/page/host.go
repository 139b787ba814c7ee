// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Host is what a page shows of one host.
type Host struct {
	Name   string
	Status report.Report
	Error  string         // why there is no status; empty: there is one
	Check  *result.Report // nil: check did not run
}

// asOf is the time to which ages in a report refer.
func asOf(r report.Report, now time.Time) time.Time {
	if r.Time.IsZero() {
		return now
	}
	return r.Time
}

// ForHost returns the page of one host. Its verdict is the worst of the check and of what the service reports.
func ForHost(h Host, now time.Time) []byte {
	state := section.HostState(h.Status, asOf(h.Status, now))
	if h.Check == nil {
		ids := anchorsOf(state.Problems)
		all := parts{h.state(state, now), problemCard(state.Problems, ids)}
		return document("http01-proxyd status", h.Name, now, append(all, h.cards("h2", "host", ids, now)))
	}
	var found []findings.Finding
	for _, c := range h.Check.Checks {
		found = append(found, c.Findings...)
	}
	problems := section.Problems(found)
	level, headline := section.OfOutcome(h.Check.Outcome), strings.TrimSuffix(h.Check.Summary, ".")
	var notes []part
	for _, advice := range h.Check.Advice {
		notes = append(notes, text(advice))
	}
	if h.Error != "" {
		notes = append(notes, text("The service has not reported its status: "+h.Error))
	} else {
		reported := slices.DeleteFunc(state.Problems, func(p report.ClusterProblem) bool {
			return slices.ContainsFunc(problems, func(own report.ClusterProblem) bool { return own.ID == p.ID })
		})
		if len(reported) > 0 {
			level = section.Worse(level, state.Level)
			headline += ", and the service reports " + report.CountLevels(section.Levels(reported))
		}
		problems = append(problems, reported...)
		notes = append(notes, text("The service reported: "+cmp.Or(state.Headline, state.Condition.Status)+": "+
			state.Condition.Message), stateLine(state, asOf(h.Status, now), h.Status.Version))
	}
	slices.SortStableFunc(problems, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	ids := anchorsOf(problems)
	all := parts{stateCard(level, headline, "", notes...), problemCard(problems, ids)}
	if len(h.Check.Checks) > 0 {
		all = append(all, card("h2", "Checks", checkTables(*h.Check, ids)))
	}
	return document("http01-proxyd check", h.Name, now, append(all, h.cards("h2", "host", ids, now)))
}

// state is the card with the state that the service of a host reported, or why there is none.
func (h Host) state(s section.State, now time.Time, notes ...part) element {
	if h.Error != "" {
		return stateCard(section.Bad, "No status", h.Error)
	}
	notes = append(notes, stateLine(s, asOf(h.Status, now), h.Status.Version))
	return stateCard(s.Level, cmp.Or(s.Headline, s.Condition.Status), s.Condition.Message, notes...)
}

// cards returns what the service of a host reported, without its problems. id begins the IDs of its elements.
func (h Host) cards(heading name, id string, ids anchors, now time.Time) parts {
	var all parts
	add := func(title string, contents ...part) { all = append(all, card(heading, title, contents...)) }
	if h.Error != "" {
		return all
	}
	at := asOf(h.Status, now)
	reason := h.Status.Condition().Reason
	if reason != report.NotRunning && reason != report.NotReachable { // otherwise the times are only when it was queried
		lanes := append(vipLanes(h.Status, now), conditionLane(h.Status, now))
		add("VIPs on a timeline", timeline(id, lanes, observed(h.Status, now)), legend())
	}
	if bars := lifetimes(id, h.Status.Certificates, at); len(bars) > 0 {
		add("Lifetime of the API's certificates", bars)
	}
	if recent := h.Status.Challenges.Recent; len(recent) > 0 {
		add("Response times of the last challenges", responseTimes(id, recent))
	}
	for _, s := range section.Host(h.Status, at) {
		for i, r := range s.Rows {
			if h.Check != nil && len(ids) > 0 && r.Level == section.Good {
				s.Rows[i].Level = "" // the check is newer, and found something else
			}
		}
		add(s.Title, contents(s, ids))
	}
	return all
}

func card(heading name, title string, contents ...part) element {
	return el("section", class("card"), el(heading, text(title)), parts(contents))
}

// contents are the rows and tables of a section.
func contents(s section.Section, ids anchors) parts {
	all := parts{}
	if len(s.Rows) > 0 {
		list := el("dl", class("terms"))
		for _, r := range s.Rows {
			el("div", el("dt", text(r.Label)), el("dd", mark(r.Level, ids.link(r.Text)))).addTo(&list)
		}
		all = append(all, list)
	}
	for _, t := range s.Tables {
		if len(t.Rows) > 0 {
			all = append(all, table(t, ids))
		}
	}
	return all
}

// stateCard is a state in one sentence.
func stateCard(l section.Level, headline, message string, notes ...part) element {
	state := el("section", class("state "+string(l)), el("p", class("headline"), mark(l, text(headline))))
	if message != "" {
		el("p", class("message"), text(message)).addTo(&state)
	}
	for _, note := range notes {
		el("p", class("muted"), note).addTo(&state)
	}
	return state
}

// stateLine describes the condition that a service of this version, or a cluster, reported.
func stateLine(s section.State, at time.Time, version string) part {
	line := fmt.Sprintf("%s is %s", s.Condition.Type, s.Condition.Status)
	if !s.Since.IsZero() {
		line += ", in this state since " + clock(s.Since) + " UTC (" + report.Age(at.Sub(s.Since)) + ")"
	}
	line += ". Reported " + clock(at) + " UTC"
	if version != "" {
		line += " by version " + report.ShortVersion(version)
	}
	return text(line + ".")
}

// checkTables are the results of the checks, and the steps of a challenge.
func checkTables(checked result.Report, ids anchors) parts {
	results := section.Table{
		Caption: "Results", Columns: []section.Column{{Title: "Check"}, {Title: "Outcome"}, {Title: "Result", MinWidth: 20}},
	}
	for _, c := range checked.Checks {
		var words []string
		for _, f := range c.Findings {
			words = append(words, "["+string(f.ID)+"]")
		}
		words = append(words, c.Text)
		if c.NotChecked != "" {
			words = append(words, "Not checked: "+c.NotChecked)
		}
		results.Rows = append(results.Rows, []section.Cell{
			{Text: c.Name},
			{Text: string(c.Outcome), Level: section.OfOutcome(c.Outcome), Marked: true},
			{Text: strings.Join(words, " ")},
		})
	}
	steps := section.Table{
		Caption: "The challenge as a validator sees it",
		Columns: []section.Column{
			{Title: "Step"}, {Title: "To"}, {Title: "Duration", Numeric: true}, {Title: "Result", MinWidth: 20},
		},
	}
	for _, s := range checked.Trace {
		steps.Rows = append(steps.Rows, []section.Cell{
			{Text: s.Step, Level: section.OfOutcome(s.Outcome), Marked: true},
			{Text: s.To},
			{Text: report.Milliseconds(time.Duration(s.DurationMs * float64(time.Millisecond)))},
			{Text: s.Text},
		})
	}
	if len(steps.Rows) == 0 {
		return parts{table(results, ids)}
	}
	return parts{table(results, ids), table(steps, ids)}
}

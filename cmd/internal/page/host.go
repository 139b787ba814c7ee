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

// ForHost returns the page of one host.
func ForHost(h Host, now time.Time) []byte {
	title := "http01-proxyd status"
	if h.Check != nil {
		title = "http01-proxyd check"
	}
	return document(title+": "+h.Name, title, h.Name, now, h.cards("h2", "host", now))
}

// cards returns everything about a host. id begins the IDs of its elements.
func (h Host) cards(heading name, id string, now time.Time) parts {
	var all parts
	add := func(title string, contents ...part) { all = append(all, card(heading, title, contents...)) }
	if h.Check != nil {
		all = append(all, checkCard(h.Check))
	}
	switch {
	case h.Error != "" && h.Check != nil && h.Check.Outcome == result.NotApplicable: // no service is required
	case h.Error != "":
		all = append(all, stateCard(section.Bad, "No status", h.Error))
	default:
		all = append(all, conditionCard(h.Status.Condition(), asOf(h.Status, now), h.Status.Version))
	}
	if problems := h.problems(now); len(problems) > 0 {
		add("Problems", problems)
	}
	if h.Check != nil && len(h.Check.Checks) > 0 {
		add("Checks", checkTables(*h.Check))
	}
	if h.Error != "" {
		return all
	}
	lanes := append(vipLanes(h.Status, now), conditionLane(h.Status, now))
	add("VIPs on a timeline", timeline(id, lanes, observed(h.Status, now)), legend())
	for _, s := range section.Host(h.Status, asOf(h.Status, now)) {
		add(s.Title, contents(s))
	}
	if len(h.Status.History) > 0 {
		add("Changes", table(changes(h.Status.History)))
	}
	return all
}

func card(heading name, title string, contents ...part) element {
	return el("section", class("card"), el(heading, text(title)), parts(contents))
}

// contents are the rows and tables of a section.
func contents(s section.Section) parts {
	all := parts{}
	if len(s.Rows) > 0 {
		list := el("dl", class("terms"))
		for _, r := range s.Rows {
			el("div", el("dt", text(r.Label)), el("dd", mark(r.Level, r.Text))).addTo(&list)
		}
		all = append(all, list)
	}
	for _, t := range s.Tables {
		all = append(all, table(t))
	}
	return all
}

// stateCard is a state in one sentence.
func stateCard(l section.Level, headline, message string, notes ...string) element {
	state := el("section", class("state "+string(l)),
		el("p", class("headline"), mark(l, headline)), el("p", class("message"), text(message)))
	for _, note := range notes {
		el("p", class("muted"), text(note)).addTo(&state)
	}
	return state
}

// conditionCard is the condition that a service of this version, or a cluster, reported.
func conditionCard(c report.Condition, at time.Time, version string) element {
	line := fmt.Sprintf("%s is %s", c.Type, c.Status)
	if !c.LastTransitionTime.IsZero() {
		line += " since " + clock(c.LastTransitionTime) + " UTC (" + report.Age(at.Sub(c.LastTransitionTime)) + ")"
	}
	line += ". Reported " + clock(at) + " UTC"
	if version != "" {
		line += " by version " + version
	}
	return stateCard(section.OfCondition(c), string(c.Reason), c.Message, line+".")
}

func checkCard(checked *result.Report) element {
	l, headline := section.Neutral, "Not checked"
	switch checked.Outcome {
	case result.OK:
		l, headline = section.Good, "No problem found"
	case result.Incomplete:
		l, headline = section.Warning, "Incomplete"
	case result.Warning:
		l, headline = section.Warning, "Warnings"
	case result.Problem:
		l, headline = section.Bad, "Problems found"
	case result.NotApplicable:
		headline = "Nothing to check"
	case result.Skipped:
	}
	return stateCard(l, headline, checked.Summary, checked.Advice...)
}

// checkTables are the results of the checks, and the steps of a challenge.
func checkTables(checked result.Report) parts {
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
			{Text: string(c.Outcome), Level: section.OfOutcome(string(c.Outcome))},
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
			{Text: s.Step, Level: section.OfOutcome(string(s.Outcome))},
			{Text: s.To},
			{Text: report.Milliseconds(time.Duration(s.DurationMs * float64(time.Millisecond)))},
			{Text: s.Text},
		})
	}
	if len(steps.Rows) == 0 {
		return parts{table(results)}
	}
	return parts{table(results), table(steps)}
}

// changes are what the timeline shows, and the other conditions.
func changes(history []report.Change) section.Table {
	t := section.Table{
		Caption: fmt.Sprintf("The last %d changes of VIPs and conditions, newest first", len(history)),
		Columns: []section.Column{{Title: "Time (UTC)"}, {Title: "VIP or condition"}, {Title: "From"}, {Title: "To"}},
	}
	for _, c := range slices.Backward(history) {
		t.Rows = append(t.Rows, []section.Cell{
			{Text: clock(c.Time) + c.Time.UTC().Format(".000")},
			{Text: subject(c)},
			{Text: cmp.Or(c.From, "–")},
			{Text: cmp.Or(c.To, "not configured")},
		})
	}
	return t
}

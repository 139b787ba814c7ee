// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// lane is one row of a timeline: the states of a VIP or a condition on one host.
type lane struct {
	host  string // on the page of a cluster
	name  string
	state string // now
	spans []span
}

// span is the time in one state.
type span struct {
	state      string
	kind       string // the class of the style sheet
	begin, end time.Time
}

// window is the time that all lanes of a timeline show.
type window struct{ begin, end time.Time }

// observed returns the time that the history of a host covers.
func observed(r report.Report, now time.Time) window {
	w := window{begin: now, end: asOf(r, now)}
	for _, c := range r.History { // earlier releases report their time in whole seconds
		w = w.include(c.Time)
	}
	return w.include(w.end.Add(-minWindow))
}

// minWindow is the shortest time that a timeline shows.
const minWindow = 10 * time.Second

func (w window) include(t time.Time) window {
	return window{
		slices.MinFunc([]time.Time{w.begin, t}, time.Time.Compare), slices.MaxFunc([]time.Time{w.end, t}, time.Time.Compare),
	}
}

// vipLanes returns a lane for each VIP of a host.
func vipLanes(r report.Report, now time.Time) []lane {
	var lanes []lane
	for _, v := range r.VIPs {
		name := v.Address.String()
		lanes = append(lanes, newLane(name, string(v.State), v.Since, changesOf(r, name), observed(r, now), vipKind))
	}
	return lanes
}

// conditionLane returns the lane of the condition of the whole service.
func conditionLane(r report.Report, now time.Time) lane {
	c := r.Condition()
	return newLane("State of the service", string(c.Reason), c.LastTransitionTime, changesOf(r, c.Type),
		observed(r, now), reasonKind)
}

// changesOf returns the changes of a VIP or a condition.
func changesOf(r report.Report, name string) []report.Change {
	return slices.DeleteFunc(slices.Clone(r.History), func(c report.Change) bool { return c.Subject() != name })
}

func vipKind(state string) string {
	known := map[report.VIPState]string{report.VIPHeld: "held", report.VIPStandby: "standby"}
	return cmp.Or(known[report.VIPState(state)], "other")
}

// reasonKind has the colours of VIPs for a service that is ready: only the verdict of a page is green.
func reasonKind(state string) string {
	known := map[report.Reason]string{report.Serving: "held", report.Standby: "standby", report.NotRequired: "other"}
	c := report.Condition{Status: "False", Reason: report.Reason(state)}
	return cmp.Or(known[c.Reason], string(section.OfCondition(c)))
}

// newLane returns the lane for the changes in a window. since is when the present state
// began, for a subject without a change.
func newLane(name, state string, since time.Time, changes []report.Change, w window, kindOf func(string) string) lane {
	l := lane{name: name, state: state}
	add := func(state string, begin, end time.Time) {
		if state != "" && !end.Before(begin) {
			l.spans = append(l.spans, span{state, kindOf(state), begin, end})
		}
	}
	if len(changes) == 0 {
		add(state, slices.MaxFunc([]time.Time{since, w.begin}, time.Time.Compare), w.end)
		return l
	}
	add(changes[0].From, w.begin, changes[0].Time)
	for i, c := range changes {
		end := w.end
		if i+1 < len(changes) {
			end = changes[i+1].Time
		}
		add(c.To, c.Time, end)
	}
	return l
}

// timeline draws lanes over one axis. Widths are percentages, so that it fits every
// screen and the text keeps its size.
func timeline(id string, lanes []lane, w window) element {
	chart := el("div", class("timeline"))
	for i, l := range lanes {
		drawing := image(fmt.Sprintf("%s-%d", id, i), "lane", l.title(),
			el("rect", class("track"), attr("width", "100%"), attr("height", "100%")))
		for _, s := range l.spans {
			s.addBar(&drawing, w)
		}
		parts{head(l.title(), l.state, l.since()), drawing}.addTo(&chart)
	}
	middle := w.begin.Add(w.end.Sub(w.begin) / 2)
	el("p", class("axis"), el("span", text(clock(w.begin))), el("span", class("wide"), text(clock(middle))),
		el("span", text(clock(w.end)+" UTC"))).addTo(&chart)
	return chart
}

func (l lane) title() string {
	if l.host == "" {
		return l.name
	}
	return l.name + " on " + l.host
}

// since describes the beginning of the state that a lane ends with.
func (l lane) since() string {
	if len(l.spans) == 0 {
		return ""
	}
	last := l.spans[len(l.spans)-1]
	return " since " + clock(last.begin) + ", " + report.Age(last.end.Sub(last.begin))
}

func (s span) describe() string { return s.state + " from " + clock(s.begin) + " to " + clock(s.end) }

// minLabelShare is the share of the timeline that a bar needs for its label. A label that
// is longer on a narrow screen is cut off at the end of its bar.
const minLabelShare = 0.1

// minBarShare is the share of the shortest bar, which is visible at the end of a timeline.
const minBarShare = 0.005

func (s span) addBar(to *element, w window) {
	share := max(minBarShare, w.share(s.end)-w.share(s.begin))
	begin := min(w.share(s.begin), 1-share)
	bar := el("svg", attr("x", percent(begin)), attr("width", percent(share)), attr("height", "100%"))
	el("title", text(s.describe()+" ("+report.Age(s.end.Sub(s.begin))+")")).addTo(&bar)
	el("rect", class("bar "+s.kind), attr("width", "100%"), attr("height", "100%")).addTo(&bar)
	if share > minLabelShare {
		el("text", class("label "+s.kind), attr("x", "8"), attr("y", "50%"), text(s.state)).addTo(&bar)
	}
	bar.addTo(to)
}

func (w window) share(t time.Time) float64 {
	if !w.end.After(w.begin) {
		return 1
	}
	return min(1, max(0, float64(t.Sub(w.begin))/float64(w.end.Sub(w.begin))))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 3, 64) + "%" }

// clock is a time in UTC, in seconds.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// legend explains the colours of a timeline. Its bars have their state in words too.
func legend() element {
	list := el("p", class("legend"))
	for _, k := range [][2]string{
		{"held", "VIP held, service serves it"},
		{"standby", "on standby"},
		{"other", "not required"},
		{string(section.Warning), "service starting or switched off"},
		{string(section.Bad), "service not ready"},
	} {
		el("span", el("svg", class("key"), attr("aria-hidden", "true"),
			el("rect", class("bar "+k[0]), attr("width", "100%"), attr("height", "100%"))), text(k[1])).addTo(&list)
	}
	return list
}

// muted is text of less importance.
func muted(s string) element { return el("span", class("muted"), text(s)) }

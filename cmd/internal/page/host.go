// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	return document(title+": "+h.Name, parts{
		el("header", class("top"),
			el("p", class("product"), text(title)),
			el("h1", text(h.Name)),
			el("p", class("muted"), text("Created "+clock(now)+" UTC"))),
		el("main", h.sections("h2", "host", now)),
	})
}

// sections collects the sections of a host.
type sections struct {
	heading name // of a section
	all     parts
}

func (s *sections) add(title string, contents parts) {
	s.all = append(s.all, el("section", class("card"), el(s.heading, text(title)), contents))
}

// sections returns everything about a host. id begins the IDs of its elements.
func (h Host) sections(heading name, id string, now time.Time) parts {
	s := &sections{heading: heading}
	r := h.Status
	if h.Check != nil {
		s.all = append(s.all, checkCard(h.Check))
	}
	switch {
	case h.Error != "" && h.Check != nil && h.Check.Outcome == result.NotApplicable: // no service is required
	case h.Error != "":
		s.all = append(s.all, el("section", class("state bad"),
			el("p", class("headline"), mark(bad, "No status")), el("p", text(h.Error))))
	default:
		s.all = append(s.all, stateCard(r, now), tiles(r, now))
	}
	s.addProblems(h, now)
	s.addChecks(h.Check)
	if h.Error != "" {
		return s.all
	}
	s.addTimeline(id, r, now)
	s.addRequests(r)
	s.addChallenges(r.Challenges.Recent)
	s.addIngress(r)
	s.addCertificates(r.Certificates, asOf(r, now))
	s.addTable(r.Table)
	s.addConditions(r, now)
	s.addChanges(r.History)
	s.addService(r)
	return s.all
}

// checkCard is the result of a check in one sentence.
func checkCard(checked *result.Report) element {
	l, headline := neutral, "Not checked"
	switch checked.Outcome {
	case result.OK:
		if len(checked.Incomplete) > 0 {
			l, headline = warning, "Incomplete"
			break
		}
		l, headline = good, "No problem found"
	case result.Warning:
		l, headline = warning, "Warnings"
	case result.Problem:
		l, headline = bad, "Problems found"
	case result.NotApplicable:
		headline = "Nothing to check"
	case result.Skipped:
	}
	card := el("section", class("state "+string(l)), el("p", class("headline"), mark(l, headline)), el("p", class("message"), text(checked.Summary)))
	for _, advice := range checked.Advice {
		el("p", class("muted"), text(advice)).addTo(&card)
	}
	return card
}

// stateCard is the state of the service in one sentence.
func stateCard(r report.Report, now time.Time) element {
	c := r.Condition()
	l := conditionLevel(c)
	line := fmt.Sprintf("%s is %s", c.Type, c.Status)
	if !c.LastTransitionTime.IsZero() {
		line += " since " + clock(c.LastTransitionTime) + " UTC (" + report.Age(asOf(r, now).Sub(c.LastTransitionTime)) + ")"
	}
	line += ". Reported " + clock(asOf(r, now)) + " UTC"
	if r.Version != "" {
		line += " by version " + r.Version
	}
	return el("section", class("state "+string(l)),
		el("p", class("headline"), mark(l, string(c.Reason))),
		el("p", class("message"), text(c.Message)),
		el("p", class("muted"), text(line+".")))
}

// tile is one figure.
type tile struct {
	label, value, note string
	level              level
}

// tiles are the figures that an operator looks for first.
func tiles(r report.Report, now time.Time) element {
	return tileList(vipTile(r), ingressTile(r), forwardedTile(r), rejectedTile(r), lastTile(r, now), certificateTile(r, now))
}

func tileList(all ...tile) element {
	list := el("dl", class("tiles"))
	for _, t := range all {
		el("div", class("tile "+string(t.level)), el("dt", text(t.label)), el("dd", el("b", text(t.value)), el("span", class("muted"), text(t.note)))).addTo(&list)
	}
	return list
}

func vipTile(r report.Report) tile {
	var held []string
	for _, v := range r.VIPs {
		if v.State == report.VIPHeld {
			held = append(held, v.Address.String())
		}
	}
	t := tile{label: "API VIPs held", value: fmt.Sprintf("%d of %d", len(held), len(r.VIPs)), note: strings.Join(held, ", ")}
	if len(held) == 0 {
		t.note = "not on this host"
	}
	return t
}

func ingressTile(r report.Report) tile {
	reachable := 0
	for _, u := range r.Upstreams {
		if u.Reachable {
			reachable++
		}
	}
	t := tile{label: "Ingress addresses", value: fmt.Sprintf("%d of %d", reachable, len(r.Upstreams)), note: "reachable", level: neutral}
	switch {
	case len(r.Upstreams) == 0:
		t.value, t.note = "none", ""
	case reachable == 0:
		t.level = bad
	case reachable < len(r.Upstreams):
		t.level = warning
	}
	return t
}

func forwardedTile(r report.Report) tile {
	var answered uint64
	for _, c := range r.Traffic.Requests {
		if c.Outcome == report.Answered {
			answered += c.Count
		}
	}
	return tile{label: "Challenges forwarded", value: string(number(r.Challenges.Total)), note: string(number(answered)) + " answered with 200"}
}

func rejectedTile(r report.Report) tile {
	var n uint64
	for _, count := range r.Challenges.Rejected {
		n += count
	}
	return tile{label: "Requests rejected", value: string(number(n)), note: "not sent to the ingress"}
}

func lastTile(r report.Report, now time.Time) tile {
	all := r.Challenges.Recent
	if len(all) == 0 {
		return tile{label: "Last challenge", value: "none", note: "since the start"}
	}
	last := all[len(all)-1]
	t := tile{label: "Last challenge", value: string(last.Outcome), note: report.Age(asOf(r, now).Sub(last.Time)) + " ago", level: outcomeLevel(last.Outcome)}
	if last.Status != 0 {
		t.value = fmt.Sprintf("%d %s", last.Status, last.Outcome)
	}
	return t
}

func certificateTile(r report.Report, now time.Time) tile {
	t := tile{label: "API certificate", value: "not checked"}
	var first report.Certificate
	for _, c := range r.Certificates {
		if c.Error == "" && (first.NotAfter.IsZero() || c.NotAfter.Before(first.NotAfter)) {
			first = c
		}
	}
	if first.NotAfter.IsZero() {
		return t
	}
	at := asOf(r, now)
	l, words := certificateState(first, at)
	return tile{label: "API certificate", value: words, note: "until " + first.NotAfter.UTC().Format("2006-01-02"), level: l}
}

// certificateState describes the remaining lifetime.
func certificateState(c report.Certificate, now time.Time) (level, string) {
	left := report.Age(c.NotAfter.Sub(now)) + " left"
	switch c.Stage(now) {
	case report.CertificateFresh:
		if c.FailedRenewals > 0 {
			return warning, left + ", renewal failed"
		}
		return good, left
	case report.CertificateRenewalLate:
		return warning, "only " + left
	case report.CertificateUrgent:
		return bad, "only " + left
	case report.CertificateExpired:
		return bad, "expired " + report.Age(now.Sub(c.NotAfter)) + " ago"
	default:
		return bad, "not valid yet"
	}
}

// addProblems shows the findings, or that there is no problem.
func (s *sections) addProblems(h Host, now time.Time) {
	var all []listedProblem
	for _, f := range problems(h.Status, h.Check, now) {
		all = append(all, listedProblem{Finding: f})
	}
	contents := parts{}
	switch {
	case len(all) > 0:
		contents = append(contents, problemList(all))
	case h.Error == "":
		contents = append(contents, el("p", class("empty"), mark(good, "No problems in this report")))
	}
	if h.Check == nil {
		contents = append(contents, el("p", class("note"), text("The status shows what the service observes. "),
			code("http01-proxyd check -o html"), text(" also examines the host and the network.")))
	}
	if len(contents) > 0 {
		s.add("Problems", contents)
	}
}

func (s *sections) addChecks(checked *result.Report) {
	if checked == nil {
		return
	}
	rows := make([]row, 0, len(checked.Checks))
	for _, c := range checked.Checks {
		l := map[result.Outcome]level{result.OK: good, result.Warning: warning, result.Problem: bad}[c.Outcome]
		var texts parts
		for _, f := range c.Findings {
			texts = append(texts, el("span", class("id"), text(string(f.ID))), text(" "))
		}
		if c.Text != "" {
			texts = append(texts, text(c.Text))
		}
		if c.NotChecked != "" {
			texts = append(texts, el("div", class("muted"), text("Not checked: "+c.NotChecked)))
		}
		rows = append(rows, row{code(c.Name), mark(cmp.Or(l, neutral), string(c.Outcome)), texts})
	}
	if len(rows) == 0 {
		return
	}
	s.add("Checks", parts{
		table("Results", []column{{title: "Check"}, {title: "Outcome"}, {title: "Result", prose: true}}, rows),
		traceTable(checked.Trace),
	})
}

// traceTable shows the steps of a challenge.
func traceTable(steps []result.Step) part {
	if len(steps) == 0 {
		return parts{}
	}
	rows := make([]row, 0, len(steps))
	for _, t := range steps {
		l := good
		if t.Outcome != result.OK {
			l = bad
		}
		rows = append(rows, row{mark(l, t.Step), code(t.To), text(report.Milliseconds(time.Duration(t.DurationMs * float64(time.Millisecond)))), text(t.Text)})
	}
	return table("The challenge as a validator sees it", []column{{title: "Step"}, {title: "To"}, {title: "Duration", numeric: true}, {title: "Result", prose: true}}, rows)
}

// addTimeline draws the VIPs and the state of the service.
func (s *sections) addTimeline(id string, r report.Report, now time.Time) {
	w := observed(r, now)
	lanes := append(vipLanes(r, now), conditionLane(r, now))
	s.add("VIPs on a timeline", parts{timeline(id, lanes, w), legend(append(vipKinds(), conditionKinds()...)...), vipTests(r, now)})
}

// vipTests lists what tests between hosts have shown of each VIP.
func vipTests(r report.Report, now time.Time) element {
	list := el("dl", class("terms"))
	for _, v := range r.VIPs {
		t, shown := r.DescribeTests(v, asOf(r, now))
		l := warning
		switch {
		case shown == "":
			continue
		case t.Cause != "":
			l = bad
		case t.Result == report.VIPAnswered:
			l = good
		case t.Result == "":
			l = neutral
		}
		term("Port 80 of "+v.Address.String(), mark(l, shown)).addTo(&list)
	}
	return list
}

// addChanges lists what the timeline shows, and the other conditions.
func (s *sections) addChanges(history []report.Change) {
	if len(history) == 0 {
		return
	}
	rows := make([]row, 0, len(history))
	for _, c := range slices.Backward(history) {
		subject := c.Condition
		if c.VIP.IsValid() {
			subject = c.VIP.String()
		}
		rows = append(rows, row{
			el("time", class("moment"), attr("datetime", c.Time.UTC().Format(time.RFC3339Nano)), text(c.Time.UTC().Format("2006-01-02 15:04:05.000"))),
			code(subject), text(cmp.Or(c.From, "–")), el("b", text(cmp.Or(c.To, "not configured"))),
		})
	}
	s.add("Changes", parts{table(fmt.Sprintf("The last %d changes of VIPs and conditions, newest first", len(rows)),
		[]column{{title: "Time (UTC)"}, {title: "VIP or condition"}, {title: "From"}, {title: "To"}}, rows)})
}

// kind is a class of bars with its meaning.
type kind struct{ class, words string }

func vipKinds() []kind {
	return []kind{{"held", "VIP held"}, {"standby", "VIP on standby"}, {"other", "VIP not required"}}
}

func conditionKinds() []kind {
	return []kind{{string(good), "service ready"}, {string(warning), "service starting or switched off"}, {string(bad), "service not ready"}}
}

// legend explains the colours of a timeline. Its bars have their state in words too.
func legend(kinds ...kind) element {
	list := el("p", class("legend"))
	for _, k := range kinds {
		el("span", el("svg", class("key"), attr("aria-hidden", "true"),
			el("rect", class("bar "+k.class), attr("width", "100%"), attr("height", "100%"))), text(k.words)).addTo(&list)
	}
	el("span", text("Times in UTC")).addTo(&list)
	return list
}

func (s *sections) addIngress(r report.Report) {
	rows := make([]row, 0, len(r.Upstreams))
	for _, u := range r.Upstreams {
		state := mark(bad, "not reachable")
		checked := part(text("–"))
		switch {
		case u.Reachable:
			state = mark(good, "reachable")
		case u.Checked.IsZero():
			state = mark(neutral, "not checked yet")
		}
		if !u.Checked.IsZero() {
			checked = moment(u.Checked)
		}
		rows = append(rows, row{code(u.Address.String()), state, checked, text(u.Error)})
	}
	contents := parts{}
	if len(rows) > 0 {
		contents = append(contents, table("Ingress addresses", []column{{title: "Address"}, {title: "State"}, {title: "Checked (UTC)"}, {title: "Error", prose: true}}, rows))
	}
	list := el("dl", class("terms"))
	if r.Trust.Kind != "" {
		_, message := r.Trust.Evaluate()
		term("CAs for TLS", text(message)).addTo(&list)
	}
	if r.EgressProxy.Upstream != "" {
		_, message := r.EgressProxy.Evaluate()
		term("Egress proxy", text(message)).addTo(&list)
	}
	s.add("Ingress", append(contents, list))
}

func (s *sections) addCertificates(all []report.Certificate, now time.Time) {
	if len(all) == 0 {
		return
	}
	rows := make([]row, 0, len(all))
	for _, c := range all {
		name := part(code(c.Name))
		if c.Name == "" {
			name = muted("without SNI")
		}
		if c.Error != "" {
			rows = append(rows, row{name, code(c.Address), mark(bad, "not read"), text(c.Error), text(""), text("")})
			continue
		}
		l, words := certificateState(c, now)
		rows = append(rows, row{name, code(c.Address), mark(l, words), moment(c.NotAfter), text(c.Issuer), el("span", class("code long"), text(c.Serial))})
	}
	s.add("Certificates of the API server", parts{table("Presented certificates",
		[]column{{title: "Name"}, {title: "Address"}, {title: "Remaining"}, {title: "Valid until (UTC)"}, {title: "Issuer"}, {title: "Serial"}}, rows)})
}

// addTable shows the nftables table as it is in the kernel.
func (s *sections) addTable(t report.Table) {
	state := mark(good, "present and owned by the service")
	switch {
	case t.Error != "":
		state = mark(bad, "unknown: "+t.Error)
	case !t.Present:
		state = mark(neutral, "absent: no request is redirected")
	case !t.Owned:
		state = mark(bad, "present, but not owned by the service")
	}
	list := el("dl", class("terms"), term("State", state))
	if t.Present {
		names := make([]string, len(t.Elements))
		for i, e := range t.Elements {
			names[i] = e.String()
		}
		redirected := "nothing: this host holds no API VIP"
		if len(names) > 0 {
			redirected = fmt.Sprintf("port 80 of %s to port %d", strings.Join(names, ", "), t.Port)
		}
		term("Redirects", text(redirected)).addTo(&list)
	}
	contents := parts{list}
	if len(t.Counters) > 0 {
		rows := make([]row, 0, len(t.Counters))
		for _, c := range t.Counters {
			rows = append(rows, row{code(c.Chain), code(cmp.Or(c.Rule, "(not of this service)")), number(c.Packets), number(c.Bytes)})
		}
		contents = append(contents, table("Counters of the rules. Only the first packet of a connection passes a nat chain.",
			[]column{{title: "Chain"}, {title: "Rule"}, {title: "Packets", numeric: true}, {title: "Bytes", numeric: true}}, rows))
	}
	s.add("nftables table", contents)
}

func (s *sections) addConditions(r report.Report, now time.Time) {
	rows := make([]row, 0, len(r.Conditions))
	for _, c := range r.Conditions {
		rows = append(rows, row{
			code(c.Type), mark(conditionLevel(c), c.Status), text(string(c.Reason)), text(c.Message),
			stacked(moment(c.LastTransitionTime), muted(report.Age(asOf(r, now).Sub(c.LastTransitionTime)))),
		})
	}
	s.add("Conditions", parts{table("Conditions of the service and its parts",
		[]column{{title: "Type"}, {title: "Status"}, {title: "Reason"}, {title: "Message", prose: true}, {title: "Since (UTC)"}}, rows)})
}

// addService shows how the service is built, configured and observed.
func (s *sections) addService(r report.Report) {
	configuration := r.Config.Source
	if r.Config.Path != "" {
		configuration += ", " + r.Config.Path
	}
	list := el("dl", class("terms"), term("Version", code(r.Version)))
	if r.Build.GoVersion != "" {
		term("Build", code(cmp.Or(r.Build.Revision, "revision unknown")+", "+r.Build.GoVersion)).addTo(&list)
	}
	term("Configuration", text(configuration)).addTo(&list)
	if r.Config.Error != "" {
		term("Rejected configuration", el("pre", text(r.Config.Error))).addTo(&list)
	}
	term("Metrics", text(metricsText(r.Metrics))).addTo(&list)
	term("VIP transitions", number(r.Events.VIPTransitions)).addTo(&list)
	term("Table repairs", number(r.Events.TableRepairs)).addTo(&list)
	if r.Events.LastRuleDelay > 0 {
		term("Last address event to table", text(report.Milliseconds(time.Duration(r.Events.LastRuleDelay*float64(time.Microsecond))))).addTo(&list)
	}
	for _, outcome := range slices.Sorted(maps.Keys(r.Events.Reloads)) {
		term("Reloads "+outcome, number(r.Events.Reloads[outcome])).addTo(&list)
	}
	s.add("Service", parts{list})
}

func metricsText(m report.Metrics) string {
	switch {
	case m.Address == "":
		return "not served: metrics.listenAddress is not set"
	case m.Served:
		return "served on " + m.Address
	case m.Error == "":
		return "exporter starting on " + m.Address
	default:
		return "not served on " + m.Address + ": " + m.Error
	}
}

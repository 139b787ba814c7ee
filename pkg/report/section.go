// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// section is a part of a report's text that is printed as a whole, or left out.
type section struct {
	name  string // by which it is missed
	spare spare
	write func(*page)
}

// optional says how soon a section is left out where there is no room for all.
type spare int

// From what has to be in sight to what is missed least.
const (
	needed  spare = iota
	trouble       // wrong, and not what challenges wait for first of all
	who
	connections
	well
	setting
	build
)

// sections are all but the last challenges, in their order.
func (r Report) sections(now time.Time) []section {
	all := []section{{"State", needed, func(p *page) { r.writeState(p, now) }}}
	if r.Condition().Reason == NotReachable {
		return all
	}
	row := func(label string, s spare, mark span, text string) {
		all = append(all, section{label, s, func(p *page) { p.writeRow(label, mark, text) }})
	}
	// Of what is well, one can do without.
	unlessBad := func(mark span, s spare) spare {
		if mark == markOK() || mark.style == faint {
			return s
		}
		return trouble
	}
	for _, v := range r.VIPs {
		row("API VIP", needed, span{}, fmt.Sprintf("%v %s", v.Address, v.State))
	}
	table := well
	if r.Table.Error != "" || (r.Table.Present && !r.Table.Owned) {
		table = trouble
	}
	row("Table", table, span{}, r.Table.describe())
	for _, u := range r.Upstreams {
		mark, text := u.describe(now)
		row("Upstream", needed, mark, text)
	}
	for _, c := range r.Certificates {
		mark, text := c.describe(now)
		row("Certificate", unlessBad(mark, well), mark, text)
	}
	if r.Trust.Kind != "" {
		mark, text := r.Trust.describe(now)
		row("Trust", unlessBad(mark, well), mark, text)
	}
	if r.EgressProxy.Upstream != "" {
		mark, text := r.EgressProxy.describe(now)
		row("Egress proxy", unlessBad(mark, setting), mark, text)
	}
	all = append(all, r.configuration())
	mark, text := r.Metrics.describe()
	row("Metrics", unlessBad(mark, setting), mark, text)
	if r.Version != "" {
		row("Version", build, span{}, r.Version)
	}
	row("Events", build, span{}, r.Events.describe())
	row("Challenges", needed, span{}, r.Challenges.describe())
	if failed := r.failures(); len(failed) > 0 {
		row("Failed", needed, span{}, formatCounts(failed))
	}
	if mark, text := r.Challenges.describeLast(now); text != "" {
		row("Last challenge", needed, mark, text)
	}
	return append(all, section{"PACKETS", connections, r.writeRuleCounters}, section{"REQUESTS", who, r.writeRequests})
}

func (r Report) configuration() section {
	s := section{"Configuration", setting, nil}
	mark := span{}
	if r.Config.Error != "" {
		mark, s.spare = markError(), trouble
	}
	s.write = func(p *page) {
		p.writeRow(s.name, mark, r.Config.describe())
		for problem := range strings.Lines(r.Config.Error) {
			p.writeRow("", span{}, strings.TrimSuffix(problem, "\n"))
		}
	}
	return s
}

// fitting are the sections for which a terminal has room besides the last
// challenges, and a line that names the others.
func (r Report) fitting(now time.Time, view View) (kept []section, note []span) {
	kept = r.sections(now)
	if view.Height == 0 {
		return kept, nil
	}
	used := 0
	lines := make([]int, len(kept))
	for i, s := range kept {
		lines[i] = s.lines(view)
		used += lines[i]
	}
	room := view.Height
	if n := len(r.Challenges.Recent); n > 0 {
		room -= tableHead + min(n, leastChallenges)
		if n > leastChallenges {
			room-- // that there are older ones
		}
	}
	var missed []string
	for used > room {
		least := 0
		for i, s := range kept {
			if s.spare > kept[least].spare || (s.spare == kept[least].spare && s.spare > needed) {
				least = i
			}
		}
		if kept[least].spare == needed {
			break
		}
		if len(missed) == 0 {
			room-- // for the note
		}
		if lines[least] > 0 && !slices.Contains(missed, kept[least].name) {
			missed = append(missed, kept[least].name)
		}
		used -= lines[least]
		kept, lines = slices.Delete(kept, least, least+1), slices.Delete(lines, least, least+1)
	}
	if len(missed) == 0 {
		return kept, nil
	}
	return kept, []span{{"… without " + strings.Join(missed, ", "), faint}}
}

// lines is how many it takes.
func (s section) lines(view View) int {
	alone := &page{view: view}
	s.write(alone)
	return alone.lineCount
}

// failures counts what a validator would not have been content with: by cause,
// and where the ingress itself has answered, by outcome.
func (r Report) failures() map[string]uint64 {
	all := make(map[string]uint64)
	for cause, n := range r.Traffic.UpstreamErrors {
		all[cause] += n
	}
	for _, n := range r.Traffic.Requests {
		if n.Count > 0 && (n.Outcome == NotFound || n.Outcome == OtherStatus) {
			all[string(n.Outcome)] += n.Count
		}
	}
	return all
}

// describeLast says what came of the last challenge: the table has no room for a whole
// diagnosis and its mend.
func (c Challenges) describeLast(now time.Time) (mark span, text string) {
	if len(c.Recent) == 0 {
		return span{}, ""
	}
	last := c.Recent[len(c.Recent)-1]
	said := last.Detail
	switch {
	case said != "":
	case last.Status == 0:
		said = "the client went before there was an answer"
	case last.Upstream == "":
		said = "answered " + last.statusText()
	default:
		said = fmt.Sprintf("%s answered %s", last.Upstream, last.statusText())
	}
	return last.mark(), fmt.Sprintf("%s ago: %s", Age(now.Sub(last.Time)), said)
}

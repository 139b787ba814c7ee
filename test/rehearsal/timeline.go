// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// width is the maximum number of columns of a timeline.
const width = 72

// lane is one line of a timeline.
type lane struct {
	title string
	cells []rune
}

// timeline draws the states of cert-manager's objects and the requests over time.
type timeline struct {
	begin time.Time
	step  time.Duration // of one column
	lanes []*lane
}

// newTimeline returns an empty timeline with columns of whole seconds.
func newTimeline(begin, end time.Time) *timeline {
	step := time.Second
	for end.Sub(begin) > width*step {
		step += time.Second
	}
	return &timeline{begin: begin, step: step}
}

func (t *timeline) column(at time.Time) int {
	return min(max(0, int(at.Sub(t.begin)/t.step)), width-1)
}

func (t *timeline) lane(title string) *lane {
	l := &lane{title: title, cells: []rune(strings.Repeat(" ", width))}
	t.lanes = append(t.lanes, l)
	return l
}

// marks are the characters of states.
func marks(state string) rune {
	return map[string]rune{
		"pending": '.', "waiting": '.', "issuing": '-', "presented": '-', "ready": '=', "valid": '=', "processing": '-',
		"invalid": 'x', "errored": 'x', "expired": 'x',
	}[state]
}

// addStates draws the states of one kind of object until end.
func (t *timeline) addStates(kind string, transitions []transition, end time.Time) {
	l := t.lane(kind)
	for _, one := range transitions {
		if mark := marks(one.state); one.kind == kind && mark != 0 {
			for i := t.column(one.at); i <= t.column(end); i++ {
				l.cells[i] = mark
			}
		}
	}
}

// addChecks draws the self checks that had no response, and addRequests the others.
func (t *timeline) addChecks(checks []selfCheck) *lane {
	l := t.lane("self check")
	for _, c := range checks {
		if c.status == 0 {
			l.cells[t.column(c.at)] = '✗'
		}
	}
	return l
}

// addRequests draws the requests of a kind of client from the status of the service.
func (t *timeline) addRequests(l *lane, kind string, requests []lab.Challenge) {
	for _, r := range requests {
		if r.ClientKind != kind {
			continue
		}
		mark := '✗'
		if r.Status == 200 {
			mark = '✓'
		}
		l.cells[t.column(r.Time)] = mark
	}
}

// String returns the picture with a scale.
func (t *timeline) String() string {
	var b strings.Builder
	const title = 12
	scale := []rune(strings.Repeat(" ", width+title))
	for i := 0; i < width; i += 12 {
		copy(scale[i:], []rune(fmt.Sprintf("|%d s", int((time.Duration(i)*t.step).Seconds()))))
	}
	fmt.Fprintf(&b, "%*s%s", title, "", strings.TrimRight(string(scale), " "))
	for _, l := range t.lanes {
		fmt.Fprintf(&b, "\n%-*s%s", title, l.title, strings.TrimRight(string(l.cells), " "))
	}
	fmt.Fprintf(&b, "\n%*s. pending  - issuing or presented  = ready or valid  ✓ 200  ✗ no or other response", title, "")
	return b.String()
}

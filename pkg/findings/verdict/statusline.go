// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Headline returns a state in a few words. A state that is ready is not the whole truth if there
// are problems.
func Headline[L ~string](c report.Condition, levels []L) string {
	found := report.CountLevels(levels)
	if c.Status != "True" || found == "" {
		return string(c.Reason)
	}
	return string(c.Reason) + ", with " + found
}

// StatusLine returns the report in one line, for STATUS= of systemd, such as "Serving: holds
// 192.0.2.5, upstream 192.0.2.6:80, 12 challenges, last 200". It counts warnings, and has the texts of
// the problems.
func StatusLine(r report.Report, now time.Time) string {
	c := r.Condition()
	parts, levels := []string{strings.TrimSuffix(c.Message, ".")}, []findings.Level{}
	for _, f := range Problems(r, now) {
		levels = append(levels, f.Level)
		if f.Level == findings.Problem && !OfState(r, f) && !strings.Contains(c.Message, f.Message) {
			parts = append(parts, f.Message+" ["+string(f.ID)+"]")
		}
	}
	if c.Reason == report.Serving {
		for _, u := range r.Upstreams {
			parts = append(parts, "upstream "+u.Address.String())
		}
	}
	if c.Reason.Ready() || r.Challenges.Total > 0 {
		parts = append(parts, summarizeChallenges(r.Challenges))
	}
	return printable.Truncate(Headline(c, levels)+": "+strings.Join(parts, ", "), maxStatusLine)
}

// maxStatusLine bounds the status line. The journal and the report have the whole
// message.
const maxStatusLine = 1000

func summarizeChallenges(c report.Challenges) string {
	n := len(c.Recent)
	if n == 0 {
		return "no challenges yet"
	}
	last := "without a response"
	if status := c.Recent[n-1].Status; status != 0 {
		last = strconv.Itoa(status)
	}
	return report.Count(c.Total, "challenge") + ", last " + last
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// StatusLine returns the report in one line, for STATUS= of systemd, such as "Serving:
// holds 192.0.2.5, upstream 192.0.2.6:80, 12 challenges, last 200".
func (r Report) StatusLine() string {
	parts := []string{r.Condition().Message}
	for _, t := range r.VIPTests {
		if t.Error != "" {
			parts = append(parts, t.Error)
		}
	}
	if r.Condition().Reason == Serving {
		for _, u := range r.Upstreams {
			parts = append(parts, "upstream "+u.Address.String())
		}
	}
	if r.Condition().Reason.Ready() || r.Challenges.Total > 0 {
		parts = append(parts, r.summarizeChallenges())
	}
	return printable.Truncate(string(r.Condition().Reason)+": "+strings.Join(parts, ", "), maxStatusLine)
}

// maxStatusLine bounds the status line. The journal and the report contain the whole message.
const maxStatusLine = 1000

func (r Report) summarizeChallenges() string {
	n := len(r.Challenges.Recent)
	if n == 0 {
		return "no challenges yet"
	}
	last := "without a response"
	if status := r.Challenges.Recent[n-1].Status; status != 0 {
		last = strconv.Itoa(status)
	}
	return Count(r.Challenges.Total, "challenge") + ", last " + last
}

// Age formats a time span in its largest unit, like the ages of kubectl.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Milliseconds formats a short duration in milliseconds.
func Milliseconds(d time.Duration) string {
	ms := float64(d.Microseconds()) / 1000
	if ms >= 10 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

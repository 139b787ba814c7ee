// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// begun is the line of a challenge's first request.
func begun(c *report.Challenge) string {
	return fmt.Sprintf("%s: %s from %v is answered %s", title(c), name(c.Asker), c.Client.Addr(), answer(c))
}

// changed is the line of a request that ended otherwise than the one before.
func changed(c *report.Challenge, before ending) string {
	return fmt.Sprintf("%s: %s from %v is answered %s (before: %s)", title(c), name(c.Asker), c.Client.Addr(), answer(c), before.short())
}

func title(c *report.Challenge) string {
	return fmt.Sprintf("challenge %s… for %q", c.TokenPrefix, c.Host)
}

// name is what an asker is called within a sentence.
func name(a report.Asker) string {
	switch a {
	case report.CertManager:
		return "cert-manager's self check"
	case report.LetsEncrypt:
		return "Let's Encrypt"
	case report.Pebble:
		return "Pebble"
	case report.StepCA:
		return "step-ca (or a Go program)"
	default:
		return "a client"
	}
}

// answer says what the client got, from whom and how soon, and what is wrong with
// it.
func answer(c *report.Challenge) string {
	if c.Status == 0 && c.Cause == "" {
		return "nothing: it went away after " + report.Milliseconds(c.Duration)
	}
	var b strings.Builder
	b.WriteString(endingOf(c).code())
	if c.Upstream.IsValid() && passedOn(c.Outcome) {
		fmt.Fprintf(&b, " by %v", c.Upstream)
	}
	fmt.Fprintf(&b, " in %s", report.Milliseconds(c.Duration))
	if c.Cause != "" {
		fmt.Fprintf(&b, " (%s: %s)", c.Cause, c.Detail)
	}
	return b.String()
}

// passedOn holds where it is the ingress's own answer that the client got.
func passedOn(o report.Outcome) bool {
	return o != report.Failed && o != report.Unread
}

func (e ending) code() string {
	if e.status == 0 {
		return "nothing"
	}
	return strconv.Itoa(e.status)
}

// short is a few words for what a request came to.
func (e ending) short() string {
	if e.cause != "" {
		return e.code() + " " + e.cause
	}
	return e.code()
}

// summary is the line of a challenge that is over, such as "self check ok ×5, CA
// 5/5 → 200, 38 ms, 2 m 10 s".
func (s *told) summary() string {
	var parts []string
	for _, who := range report.Askers() {
		i := slices.IndexFunc(s.askers, func(a asker) bool { return a.who == who })
		if i >= 0 {
			parts = append(parts, s.askers[i].summary())
		}
	}
	parts = append(parts, report.Milliseconds(s.Longest), span(s.Last.Sub(s.Begun)))
	return title(&s.last) + " is over: " + strings.Join(parts, ", ")
}

func (a asker) summary() string {
	who := map[report.Asker]string{
		report.CertManager: "self check", report.LetsEncrypt: "CA (Let's Encrypt)", report.Pebble: "CA (Pebble)",
		report.StepCA: "CA (step-ca or a Go program)", report.OtherAsker: "others",
	}[a.who]
	switch {
	case a.who == report.CertManager && a.good == a.all:
		return fmt.Sprintf("%s ok ×%d", who, a.all)
	case a.good == a.all:
		return fmt.Sprintf("%s %d/%d → 200", who, a.good, a.all)
	default:
		return fmt.Sprintf("%s %d/%d ok, last → %s", who, a.good, a.all, a.last.short())
	}
}

func muted(n uint64) string {
	requests := "requests"
	if n == 1 {
		requests = "request"
	}
	return fmt.Sprintf("%d more %s for challenges in the last minute than have lines of their own", n, requests)
}

// span gives how long a challenge took, as systemd writes time spans.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
}

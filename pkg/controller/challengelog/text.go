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

// startedMessage is the line of a challenge's first request.
func startedMessage(c *report.Challenge) string {
	return fmt.Sprintf("%s: %s from %v is answered %s", challengeTitle(c), clientName(c.ClientKind), c.Client.Addr(), describeAnswer(c))
}

// changedMessage is the line of a request that ended otherwise than the one before.
func changedMessage(c *report.Challenge, before result) string {
	return fmt.Sprintf("%s: %s from %v is answered %s (before: %s)", challengeTitle(c), clientName(c.ClientKind), c.Client.Addr(), describeAnswer(c), before.text())
}

func challengeTitle(c *report.Challenge) string {
	return fmt.Sprintf("challenge %s… for %q", c.TokenPrefix, c.Host)
}

// clientName is what an asker is called within a sentence.
func clientName(a report.ClientKind) string {
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

// describeAnswer says what the client got, from whom and how soon, and what is wrong with
// it.
func describeAnswer(c *report.Challenge) string {
	if c.Status == 0 && c.Cause == "" {
		return "nothing: it went away after " + report.Milliseconds(c.Duration)
	}
	var b strings.Builder
	b.WriteString(resultOf(c).statusText())
	if c.Upstream.IsValid() && fromUpstream(c.Outcome) {
		fmt.Fprintf(&b, " by %v", c.Upstream)
	}
	fmt.Fprintf(&b, " in %s", report.Milliseconds(c.Duration))
	if c.Cause != "" {
		fmt.Fprintf(&b, " (%s: %s)", c.Cause, c.Detail)
	}
	return b.String()
}

// fromUpstream holds where it is the ingress's own answer that the client got.
func fromUpstream(o report.Outcome) bool {
	return o != report.UpstreamError && o != report.AnswerUnread
}

func (e result) statusText() string {
	if e.status == 0 {
		return "nothing"
	}
	return strconv.Itoa(e.status)
}

// text is a few words for what a request came to.
func (e result) text() string {
	if e.cause != "" {
		return e.statusText() + " " + e.cause
	}
	return e.statusText()
}

// summary is the line of a challenge that is over, such as "self check ok ×5, CA
// 5/5 → 200, 38 ms, 2 m 10 s".
func (s *openChallenge) summary() string {
	var parts []string
	for _, who := range report.ClientKinds() {
		i := slices.IndexFunc(s.clients, func(a clientStats) bool { return a.kind == who })
		if i >= 0 {
			parts = append(parts, s.clients[i].summary())
		}
	}
	parts = append(parts, report.Milliseconds(s.MaxDuration), formatSpan(s.LastRequest.Sub(s.FirstRequest)))
	return challengeTitle(&s.last) + " is over: " + strings.Join(parts, ", ")
}

func (a clientStats) summary() string {
	who := map[report.ClientKind]string{
		report.CertManager: "self check", report.LetsEncrypt: "CA (Let's Encrypt)", report.Pebble: "CA (Pebble)",
		report.StepCA: "CA (step-ca or a Go program)", report.OtherClient: "others",
	}[a.kind]
	switch {
	case a.kind == report.CertManager && a.answered == a.total:
		return fmt.Sprintf("%s ok ×%d", who, a.total)
	case a.answered == a.total:
		return fmt.Sprintf("%s %d/%d → 200", who, a.answered, a.total)
	default:
		return fmt.Sprintf("%s %d/%d ok, last → %s", who, a.answered, a.total, a.last.text())
	}
}

func suppressedMessage(n uint64) string {
	requests := "requests"
	if n == 1 {
		requests = "request"
	}
	return fmt.Sprintf("%d more %s for challenges in the last minute than have lines of their own", n, requests)
}

// formatSpan gives how long a challenge took, as systemd writes time spans.
func formatSpan(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
}

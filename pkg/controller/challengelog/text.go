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

// startedMessage is about the first request of a challenge.
func startedMessage(c *report.Challenge) string {
	return fmt.Sprintf("%s: %s from %v got %s",
		challengeTitle(c), clientName(c.ClientKind), c.Client.Addr(), describeAnswer(c))
}

// changedMessage is about a request with another result than the one before.
func changedMessage(c *report.Challenge, before result) string {
	return fmt.Sprintf("%s: %s from %v got %s (before: %s)",
		challengeTitle(c), clientName(c.ClientKind), c.Client.Addr(), describeAnswer(c), before.text())
}

func challengeTitle(c *report.Challenge) string {
	return fmt.Sprintf("challenge %s… for %q", c.TokenPrefix, c.Host)
}

// clientName names a kind of client within a sentence.
func clientName(k report.ClientKind) string {
	switch k {
	case report.CertManager:
		return "cert-manager's self check"
	case report.LetsEncrypt:
		return "Let's Encrypt"
	case report.Google:
		return "Google Trust Services"
	case report.Sectigo:
		return "Sectigo"
	case report.ZeroSSL:
		return "ZeroSSL"
	case report.DigiCert:
		return "DigiCert"
	case report.Pebble:
		return "Pebble"
	case report.StepCA:
		return "step-ca or a Go program"
	case report.CheckClient:
		return "http01-proxyd check"
	default:
		return "a client"
	}
}

// describeAnswer describes what the client got, from where and how fast, and its failure.
func describeAnswer(c *report.Challenge) string {
	if c.Status == 0 && c.Cause == "" {
		return "no response: it disconnected after " + report.Milliseconds(c.Duration)
	}
	var b strings.Builder
	b.WriteString(resultOf(c).statusText())
	if c.Upstream.IsValid() && fromUpstream(c.Outcome) {
		fmt.Fprintf(&b, " from %v", c.Upstream)
	}
	fmt.Fprintf(&b, " in %s", report.Milliseconds(c.Duration))
	if c.Cause != "" {
		fmt.Fprintf(&b, " (%s: %s)", c.Cause, c.Detail)
	}
	return b.String()
}

// fromUpstream reports whether the client got the response of the ingress itself.
func fromUpstream(o report.Outcome) bool {
	return o != report.UpstreamError && o != report.AnswerUnread
}

func (r result) statusText() string {
	if r.status == 0 {
		return "no response"
	}
	return strconv.Itoa(r.status)
}

// text describes a result in a few words.
func (r result) text() string {
	if r.cause != "" {
		return r.statusText() + " " + r.cause
	}
	return r.statusText()
}

// summary is about a challenge that ended, for example "self check ok ×5, CA 6/6 →
// 200, 38 ms, 2 m 10 s".
func (c *Challenge) summary() string {
	var parts []string
	for _, kind := range report.ClientKinds() {
		i := slices.IndexFunc(c.clients, func(s clientStats) bool { return s.kind == kind })
		if i >= 0 {
			parts = append(parts, c.clients[i].summary())
		}
	}
	parts = append(parts, report.Milliseconds(c.MaxDuration), formatSpan(c.duration()))
	return challengeTitle(&c.last) + " has ended: " + strings.Join(parts, ", ")
}

func (s clientStats) summary() string {
	var name string
	switch s.kind {
	case report.CertManager:
		name = "self check"
	case report.CheckClient:
		name = clientName(s.kind)
	case report.OtherClient:
		name = "others"
	default:
		name = "CA (" + clientName(s.kind) + ")"
	}
	switch {
	case s.kind == report.CertManager && s.answered == s.total:
		return fmt.Sprintf("%s ok ×%d", name, s.total)
	case s.answered == s.total:
		return fmt.Sprintf("%s %d/%d → 200", name, s.answered, s.total)
	default:
		return fmt.Sprintf("%s %d/%d ok, last → %s", name, s.answered, s.total, s.last.text())
	}
}

func suppressedMessage(n uint64) string {
	return report.Count(n, "more challenge request") + " in the last minute, not logged one by one"
}

// formatSpan formats the duration of a challenge as systemd formats time spans.
func formatSpan(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Result is the result of one check.
type Result struct {
	Name       string              `json:"name"`                 // of the check
	Outcome    report.CheckOutcome `json:"outcome"`              // ok, warning, problem or skipped
	Text       string              `json:"text,omitempty"`       // what works, or why the check was skipped
	NotChecked string              `json:"notChecked,omitempty"` // what could not be checked, and why
	Incomplete bool                `json:"incomplete"`           // the check could not run, or not completely
	Findings   []findings.Finding  `json:"findings"`             // faults; empty: none
	DurationMs float64             `json:"durationMs"`           // duration of the check
	// Addresses are those of this host from which it tests API VIPs; only of the check of packets.
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// Pass is a result without findings.
func Pass(format string, args ...any) Result {
	return Result{Outcome: report.CheckOK, Text: fmt.Sprintf(format, args...)}
}

// Skip is the result of a check that could not run, with the reason.
func Skip(format string, args ...any) Result {
	return Result{Outcome: report.CheckSkipped, Text: fmt.Sprintf(format, args...), Incomplete: true}
}

// NotCompleted is the result of a check that did not run or end, whatever it checks.
func NotCompleted(format string, args ...any) Result {
	return Result{Outcome: report.CheckSkipped}.WithNotChecked(fmt.Sprintf(format, args...))
}

// Nothing is the result of a check that does not apply to this host.
func Nothing(format string, args ...any) Result {
	return Result{Outcome: report.CheckSkipped, Text: fmt.Sprintf(format, args...)}
}

// Found is a result with one finding.
func Found(id findings.ID, values findings.Values) Result { return Of(findings.New(id, values)) }

// Of is a result with findings. Without any, it is OK without a text.
func Of(matches ...findings.Finding) Result { return PassUnless(matches, "") }

// PassUnless is a result with findings. Without any, it is OK with the text.
func PassUnless(matches []findings.Finding, format string, args ...any) Result {
	r := Pass(format, args...)
	r.Findings = matches
	for _, f := range matches {
		r.Outcome = report.Worst(r.Outcome, report.CheckOutcome(f.Level))
	}
	if len(matches) > 0 {
		r.Text = ""
	}
	return r
}

// WithNotChecked adds what could not be checked. An empty text adds nothing.
func (r Result) WithNotChecked(unseen string) Result {
	r.NotChecked, r.Incomplete = unseen, r.Incomplete || unseen != ""
	return r
}

// Replacing is the result with other findings of the check that r is the result of.
func (r Result) Replacing(old Result) Result {
	r.Name, r.DurationMs, r.Addresses = old.Name, old.DurationMs, old.Addresses
	return r.WithNotChecked(old.NotChecked)
}

// maxJoined bounds the addresses in a sentence: anybody can send packets from many.
const maxJoined = 8

// JoinAddresses lists addresses in a sentence, at most maxJoined of them.
func JoinAddresses(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs[:min(len(addrs), maxJoined)] {
		texts = append(texts, a.String())
	}
	if more := len(addrs) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	if last := len(texts) - 1; last > 1 {
		texts = []string{strings.Join(texts[:last], ", "), texts[last]}
	}
	return strings.Join(texts, " and ")
}

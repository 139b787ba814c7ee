// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// WriteText prints the report for a person: what is so, then what was counted,
// then the last challenges, the newest first.
func (r Report) WriteText(w io.Writer, now time.Time, view View) error {
	p := &page{view: view}
	kept, note := r.fitting(now, view)
	for _, s := range kept {
		s.write(p)
	}
	r.writeChallenges(p, now, len(note))
	for _, line := range note {
		p.writeLine(line)
	}
	return p.writeTo(w)
}

// The marks. A message that nothing is wrong with has none.
func markOK() span      { return span{"✓", green} }
func markWarning() span { return span{"!", yellow} }
func markError() span   { return span{"✗", red} }

func (r Report) writeState(p *page, now time.Time) {
	c := r.Condition()
	p.writeLine(span{text: pad("State:", labelWidth)}, c.mark(), span{text: " "}, span{string(c.Reason), bold},
		span{text: fmt.Sprintf(" (%s=%s for %s)", c.Type, c.Status, Age(now.Sub(c.LastTransitionTime)))})
	if c.Message != "" {
		p.writeRow("Message", span{}, c.Message)
	}
}

// mark tells apart what is well, what somebody wanted so, and what is wrong.
func (c Condition) mark() span {
	switch {
	case c.Status == "True":
		return markOK()
	case c.Reason == Starting || c.Reason == Disabled || c.Reason == ExternalLoadBalancer || c.Status != "False":
		return markWarning()
	default:
		return markError()
	}
}

func (t Table) describe() string {
	switch {
	case t.Error != "":
		return "unknown: " + t.Error
	case !t.Present:
		return "absent"
	case !t.Owned:
		return "present, but not this process's"
	}
	if len(t.Elements) == 0 {
		return "inet http01-proxyd present, empty: no API VIP is here"
	}
	names := make([]string, len(t.Elements))
	for i, e := range t.Elements {
		names[i] = e.String()
	}
	return fmt.Sprintf("inet http01-proxyd present, leads port 80 of %s to port %d", strings.Join(names, ", "), t.Port)
}

func (u Upstream) describe(now time.Time) (mark span, text string) {
	switch {
	case u.Reachable:
		return markOK(), fmt.Sprintf("%v reachable, looked at %s ago", u.Address, Age(now.Sub(u.Checked)))
	case u.Checked.IsZero():
		return span{"-", faint}, fmt.Sprintf("%v not tried yet", u.Address)
	default:
		return markError(), u.Error
	}
}

// describe tells what is left of the certificate, and how old that knowledge is.
func (c Certificate) describe(now time.Time) (mark span, text string) {
	who := "without a name"
	if c.Name != "" {
		who = c.Name
	}
	who += " at " + c.Address
	looked := fmt.Sprintf("looked at %s ago", Age(now.Sub(c.Checked)))
	if c.Error != "" {
		return markError(), fmt.Sprintf("%s: %s (%s)", who, c.Error, looked)
	}
	until := fmt.Sprintf("until %s, by %q, %s", c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), c.Issuer, looked)
	left := fmt.Sprintf("%s left of %s", Age(c.NotAfter.Sub(now)), Age(c.NotAfter.Sub(c.NotBefore)))
	switch c.Stage(now) {
	case CertificateFresh:
		return markOK(), fmt.Sprintf("%s: %s, %s", who, left, until)
	case CertificateRenewalLate:
		return markWarning(), fmt.Sprintf("%s: only %s, %s", who, left, until)
	case CertificateUrgent:
		return markError(), fmt.Sprintf("%s: only %s, %s", who, left, until)
	case CertificateExpired:
		return markError(), fmt.Sprintf("%s: EXPIRED %s ago, %s", who, Age(now.Sub(c.NotAfter)), until)
	default:
		return markError(), fmt.Sprintf("%s: NOT YET VALID for %s, %s", who, Age(c.NotBefore.Sub(now)), until)
	}
}

func (c Config) describe() string {
	switch {
	case c.Error != "" && c.Source == "none":
		return "none in force: " + c.Path + " is refused"
	case c.Error != "":
		return "the last good one in force: " + c.Path + " is refused"
	case c.Source == "default":
		return "defaults (no " + c.Path + ")"
	default:
		return c.Path
	}
}

func (m Metrics) describe() (mark span, text string) {
	switch {
	case m.Address == "":
		return span{"-", faint}, "not served: metrics.listenAddress is not set"
	case m.Served:
		return markOK(), "served on " + m.Address
	case m.Error == "":
		return span{"-", faint}, "about to be served on " + m.Address
	default:
		return markError(), fmt.Sprintf("not served on %s: %s", m.Address, m.Error)
	}
}

func (e Events) describe() string {
	text := fmt.Sprintf("VIP transitions: %d, table repairs: %d", e.VIPTransitions, e.TableRepairs)
	if len(e.Reloads) > 0 {
		text += ", reloads: " + formatCounts(e.Reloads)
	}
	return text
}

// describe names what was refused, reason by reason.
func (c Challenges) describe() string {
	parts := []string{fmt.Sprintf("%d forwarded", c.Total)}
	for _, reason := range slices.Sorted(maps.Keys(c.Refused)) {
		parts = append(parts, fmt.Sprintf("%d refused as %s", c.Refused[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// formatCounts is "2 of this, 1 of that" in a stable order.
func formatCounts(counts map[string]uint64) string {
	parts := make([]string, 0, len(counts))
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(parts, ", ")
}

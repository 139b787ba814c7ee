// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TrustConditionType is the type of the condition that tells whether TLS to the
// ingress is verified by what the admin wants.
const TrustConditionType = "UpstreamTrustReady"

// The reasons of that condition besides NotRequired: nothing is asked by TLS.
const (
	TrustInForce        Reason = "InForce"        // True: the admin's bundle
	SystemTrust         Reason = "SystemTrust"    // True: what this host trusts, since there is no bundle
	TrustRefused        Reason = "Refused"        // False: the bundle is refused, what was in force before is
	NoUsableCertificate Reason = "NothingLeft"    // False: likewise, since no certificate of it can be trusted
	NothingTrusted      Reason = "NothingTrusted" // False: nothing is in force, TLS to the ingress fails
)

// TrustKind says where what is trusted comes from.
type TrustKind string

// The kinds.
const (
	TrustAdmin    TrustKind = "admin"     // the file as it is
	TrustLastGood TrustKind = "last-good" // the file as it was before it was refused
	TrustSystem   TrustKind = "system"    // this host's own roots: there is no such file
	TrustNone     TrustKind = "none"      // nothing is trusted
	TrustUnused   TrustKind = "unused"    // by this configuration nothing is asked by TLS
)

// Trust is what TLS to the ingress is verified by. The zero value: nobody has looked
// yet.
type Trust struct {
	Kind         TrustKind `json:"kind"`             // of what is in force
	Path         string    `json:"path"`             // upstream.trustedCA
	Source       string    `json:"source,omitempty"` // the file that what is in force comes from
	Certificates int       `json:"certificates"`     // in force
	Subjects     []string  `json:"subjects"`         // of the first of them
	Since        time.Time `json:"since,omitzero"`   // when these came into force
	Error        string    `json:"error,omitempty"`  // why the file is refused
	// NoUsableCertificate: it is refused for want of a certificate that can be trusted.
	NoUsableCertificate bool                 `json:"nothingLeft,omitempty"`
	Ignored             []IgnoredCertificate `json:"leftOut"` // of the file as it is, the first 20
	IgnoredTotal        int                  `json:"leftOutTotal"`
}

// MaxIgnoredCertificates bounds what a report, and the journal, list of those that are left
// out.
const MaxIgnoredCertificates = 20

// IgnoredCertificate is a certificate that does not count.
type IgnoredCertificate struct {
	Line    int    `json:"line"`
	Subject string `json:"subject,omitempty"`
	Serial  string `json:"serial,omitempty"`
	Reason  string `json:"reason"`
}

// SetTrust takes what TLS is verified by.
func (b *Tracker) SetTrust(t Trust, now time.Time) {
	reason, message := t.Evaluate()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trust = t
	b.setPartCondition(TrustConditionType, reason == TrustInForce || reason == SystemTrust || reason == NotRequired, reason, message, now)
}

// withEmptyLists makes lists of what is none, as JSON's readers want them.
func (t Trust) withEmptyLists() Trust {
	t.Subjects = append([]string{}, t.Subjects...)
	t.Ignored = append([]IgnoredCertificate{}, t.Ignored...)
	return t
}

// setPartCondition takes a condition of a part of the service, beside the one that sums
// everything up. It needs mu.
func (b *Tracker) setPartCondition(kind string, ready bool, reason Reason, message string, now time.Time) {
	i := slices.IndexFunc(b.partConditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		i = len(b.partConditions)
		b.partConditions = append(b.partConditions, Condition{Type: kind})
	}
	b.partConditions[i] = b.partConditions[i].withReadiness(ready, reason, message, now)
	b.signalChange()
}

// Evaluate gives the condition's reason and message.
func (t Trust) Evaluate() (reason Reason, message string) {
	switch {
	case t.Kind == TrustUnused:
		return NotRequired, "the ingress is not asked by TLS"
	case t.Kind == TrustNone:
		return NothingTrusted, t.Error + "; no certificate of an ingress is trusted"
	case t.NoUsableCertificate:
		return NoUsableCertificate, fmt.Sprintf("%s; %s stays in force", t.Error, t.describeSource())
	case t.Error != "":
		return TrustRefused, fmt.Sprintf("%s; %s stays in force", t.Error, t.describeSource())
	case t.Kind == TrustSystem:
		return SystemTrust, fmt.Sprintf("%s is in force, for there is no %s", t.describeSource(), t.Path)
	default:
		return TrustInForce, t.describeSource() + " is in force"
	}
}

// describeSource names what is in force.
func (t Trust) describeSource() string {
	switch t.Kind {
	case TrustSystem:
		return fmt.Sprintf("this host's own %s (%s)", t.Source, t.describeCount())
	case TrustLastGood:
		return fmt.Sprintf("the last good text of %s (%s)", t.Source, t.describeCount())
	default:
		return fmt.Sprintf("%s (%s)", t.Source, t.describeCount())
	}
}

func (t Trust) describeCount() string {
	if t.Certificates == 1 {
		return "1 CA"
	}
	return fmt.Sprintf("%d CAs", t.Certificates)
}

func (t Trust) describe(now time.Time) (mark span, text string) {
	reason, message := t.Evaluate()
	if !t.Since.IsZero() {
		message += fmt.Sprintf(", since %s ago", Age(now.Sub(t.Since)))
	}
	if t.IgnoredTotal > 0 && !t.NoUsableCertificate {
		message += fmt.Sprintf("; left out: %d (%s)", t.IgnoredTotal, t.describeIgnored())
	}
	switch {
	case reason == NotRequired:
		return span{"-", faint}, message
	case reason != TrustInForce && reason != SystemTrust:
		return markError(), message
	case t.IgnoredTotal > 0 && t.Kind == TrustAdmin:
		return markWarning(), message
	default:
		return markOK(), message
	}
}

// maxIgnoredShown are named where there is not much room.
const maxIgnoredShown = 2

func (t Trust) describeIgnored() string {
	var parts []string
	for _, l := range t.Ignored[:min(maxIgnoredShown, len(t.Ignored))] {
		name := fmt.Sprintf("line %d", l.Line)
		if l.Subject != "" {
			name += " " + l.Subject
		}
		parts = append(parts, name+": "+l.Reason)
	}
	if t.IgnoredTotal > len(parts) {
		parts = append(parts, "…")
	}
	return strings.Join(parts, "; ")
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// TrustConditionType is the type of the condition of the CAs for TLS to the ingress.
const TrustConditionType = "UpstreamTrustReady"

// The reasons of that condition besides NotRequired, which means that no request uses
// TLS.
const (
	TrustLoaded Reason = "Loaded" // True: the configured bundle
	// True: the CAs of this host, because the configured bundle does not exist
	SystemTrust         Reason = "SystemTrust"
	TrustRejected       Reason = "Rejected"            // False: the bundle is rejected, and the previous one stays in use
	NoUsableCertificate Reason = "NoUsableCertificate" // False: the same, because no certificate of the bundle can be used
	NothingTrusted      Reason = "NothingTrusted"      // False: no CA is trusted, and TLS to the ingress fails
)

// TrustKind is the origin of the trusted CAs.
type TrustKind string

// The kinds.
const (
	TrustAdmin    TrustKind = "admin"     // the configured bundle
	TrustLastGood TrustKind = "last-good" // the configured bundle as it was before it was rejected
	TrustSystem   TrustKind = "system"    // the CAs of this host: the configured bundle does not exist
	TrustNone     TrustKind = "none"      // no CA is trusted
	TrustUnused   TrustKind = "unused"    // the configuration uses no TLS
)

// Trust is the CAs for TLS to the ingress. The zero value means that they were not read yet.
type Trust struct {
	Kind         TrustKind `json:"kind"`
	Path         string    `json:"path"`             // upstream.trustedCA
	Source       string    `json:"source,omitempty"` // the file of the trusted CAs
	Certificates int       `json:"certificates"`     // number of trusted CAs
	Subjects     []string  `json:"subjects"`         // of the first CAs
	Since        time.Time `json:"since,omitzero"`   // when these CAs took effect
	Error        string    `json:"error,omitempty"`  // why the file is rejected
	// NoUsableCertificate is set if the file is rejected because it has no usable certificate.
	NoUsableCertificate bool                 `json:"noUsableCertificate,omitempty"`
	Ignored             []IgnoredCertificate `json:"ignored"` // the first MaxIgnoredCertificates of the file
	IgnoredTotal        int                  `json:"ignoredTotal"`
}

// MaxIgnoredCertificates bounds the ignored certificates in a report and in the journal.
const MaxIgnoredCertificates = 20

// IgnoredCertificate is a certificate of the file that is not used.
type IgnoredCertificate struct {
	Line    int    `json:"line"`
	Subject string `json:"subject,omitempty"` // printable and short; empty if unreadable
	Serial  string `json:"serial,omitempty"`  // in hexadecimal, as openssl prints it
	Reason  string `json:"reason"`
}

// String names the part of the file and the reason.
func (c IgnoredCertificate) String() string {
	if c.Subject == "" {
		return fmt.Sprintf("line %d: %s", c.Line, c.Reason)
	}
	return fmt.Sprintf("line %d: %q, serial %s: %s", c.Line, c.Subject, c.Serial, c.Reason)
}

// SummarizeIgnored names the first certificates of the file that are not used, and counts the others.
func (t Trust) SummarizeIgnored() string {
	const named = 3
	var parts []string
	for _, c := range t.Ignored[:min(named, len(t.Ignored))] {
		parts = append(parts, c.String())
	}
	if more := t.IgnoredTotal - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// Evaluate returns the reason and message of the condition.
func (t Trust) Evaluate() (reason Reason, message string) {
	switch {
	case t.Kind == TrustUnused:
		return NotRequired, "requests to the ingress do not use TLS"
	case t.Kind == TrustNone:
		return NothingTrusted, t.Error + "; no certificate of an ingress is trusted"
	case t.NoUsableCertificate:
		return NoUsableCertificate, fmt.Sprintf("%s; %s stays in use", t.Error, t.describeSource())
	case t.Error != "":
		return TrustRejected, fmt.Sprintf("%s; %s stays in use", t.Error, t.describeSource())
	case t.Kind == TrustSystem:
		return SystemTrust, fmt.Sprintf("%s is in use, because %s does not exist", t.describeSource(), t.Path)
	default:
		return TrustLoaded, t.describeSource() + " is in use"
	}
}

func (t Trust) describeSource() string {
	switch t.Kind {
	case TrustSystem:
		return fmt.Sprintf("this host's %s (%s)", t.Source, Count(t.Certificates, "CA"))
	case TrustLastGood:
		return fmt.Sprintf("the last good content of %s (%s)", t.Source, Count(t.Certificates, "CA"))
	default:
		return fmt.Sprintf("%s (%s)", t.Source, Count(t.Certificates, "CA"))
	}
}

// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Attempt is what a challenge that ended shows about an attempt to get a certificate.
type Attempt struct {
	Name    string    // that was requested
	Token   uint64    // differs between attempts
	Started time.Time // the first request
	Ended   time.Time // the last one

	// Invalid is true if a solver answered the token, and a CA got something else: the CA's
	// authorisation is invalid. Nobody else knows the token, so this cannot be forged. Other
	// attempts count only while the certificate's renewal is due: anybody can imitate
	// cert-manager's requests, and a challenge may be for a certificate that the API server
	// does not present.
	Invalid bool
	Text    string // what was observed, to follow the name and a colon
	Cause   string // of the last failed request; may be empty
}

// Hostname returns a Host field without its port.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Outranks reports whether an attempt shows a failed renewal better than another one for the
// same name: it cannot be forged, or it lasted longer.
func (a Attempt) Outranks(b Attempt) bool {
	if a.Invalid != b.Invalid {
		return a.Invalid
	}
	return a.Ended.Sub(a.Started) > b.Ended.Sub(b.Started)
}

// isAttempt reports whether a challenge belongs to an attempt to get a certificate. A single
// request for a token that no solver answered is a scan, unless its User-Agent is
// cert-manager's or a CA's: this field can add an attempt, but never hide one.
func (c *Challenge) isAttempt() bool { return c.Answered > 0 || c.repeated || c.fromKnownClient() }

// attempt returns the attempt to which an ended challenge belongs.
func (c *Challenge) attempt() Attempt {
	a := Attempt{Name: Hostname(c.last.Host), Token: c.last.Token, Started: c.FirstRequest, Ended: c.LastRequest}
	selfCheck := slices.IndexFunc(c.clients, func(s clientStats) bool { return s.kind == report.CertManager })
	// A CA can use any User-Agent except this project's and cert-manager's. A CA accepts a few
	// failures among the requests of its perspectives.
	isCA := func(s clientStats) bool { return s.kind != report.CertManager && s.kind != report.CheckClient }
	ca := slices.IndexFunc(c.clients, func(s clientStats) bool { return isCA(s) && 2*s.answered <= s.total })
	validated := slices.ContainsFunc(c.clients, isCA)
	switch {
	case ca >= 0 && (c.Answered > 0 || !unknownClient(c.clients[ca].kind)):
		s := &c.clients[ca]
		a.Invalid, a.Cause = c.Answered > 0, s.lastFailure.cause
		a.Text = fmt.Sprintf("%d of %d requests of the CA did not get 200; the last response was %s",
			s.total-s.answered, s.total, s.lastFailure.text())
	case selfCheck >= 0 && c.clients[selfCheck].answered == 0:
		s := &c.clients[selfCheck]
		a.Cause = s.lastFailure.cause
		a.Text = "cert-manager's self check never got 200; the last response was " + s.lastFailure.text()
	case c.Answered == 0:
		a.Cause = c.result.cause
		a.Text = fmt.Sprintf("%d requests for its challenge did not get 200; the last response was %s",
			c.Requests, c.result.text())
	case !validated:
		a.Text = "cert-manager's self check succeeded, and no CA sent a request to this host"
	default:
		a.Text = "the CA's requests were answered with 200, but the API server presents no new certificate"
	}
	return a
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxSessions bounds the sessions that are kept to be resumed, by the name that was
// asked for: without `hosts` a client can ask for any. One takes some 4 KiB.
const maxSessions = 64

// verifier says which routers are spoken to. Its sessions are resumed under it
// only: with another, each router is verified from the start.
type verifier struct {
	trust    *Trust
	names    []string
	sessions tls.ClientSessionCache
}

func newVerifier(trust *Trust, names []string) *verifier {
	return &verifier{trust, slices.Clone(names), tls.NewLRUClientSessionCache(maxSessions)}
}

// is reports whether the verifier would be the same with these.
func (v *verifier) is(trust *Trust, names []string) bool {
	return v.trust == trust && slices.Equal(v.names, names)
}

// config is for one connection, on which name is asked for; it may be empty.
//
// crypto/tls itself accepts a certificate by one name, which is also what it asks
// for. Here another than that may be right: the router answers for the API's name
// with the certificate of the applications. So its own verification is off, and
// verify does all of it: it is called in each handshake, also of a resumed session,
// and before the client's last message of it. Without a nil from there no
// connection comes about, and no byte of a request is sent.
func (v *verifier) config(name string) *tls.Config {
	return &tls.Config{
		ServerName: name, // which does not go out where it is an address (RFC 6066 section 3)
		MinVersion: tls.VersionTLS12,
		// Without the post-quantum hybrids: they make the first message one of two
		// packets, which some middleboxes drop, for what anyone may read at the VIP
		// in the clear.
		CurvePreferences:   []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
		ClientSessionCache: v.sessions,
		InsecureSkipVerify: true, //nolint:gosec // see above: VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			return v.verify(s.PeerCertificates, name, time.Now())
		},
	}
}

// verify accepts a router by the certificates that it presents: they lead to one
// that is trusted, are valid now and made for servers, and the first is for name or
// one of the configured names.
func (v *verifier) verify(chain []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return &refusal{TLSHandshake, "it presents no certificate"}
	}
	leaf := chain[0]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	// Roots is never nil, which would have the system's read. KeyUsages empty is
	// for servers.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: v.trust.authorities(), Intermediates: between, CurrentTime: now}); err != nil {
		return v.refuseChain(leaf, err, now)
	}
	return v.verifyName(leaf, name)
}

// verifyName: a configured name that begins with an asterisk is that of a
// certificate, literally, which is what x509 makes of one that is no host's.
func (v *verifier) verifyName(leaf *x509.Certificate, name string) error {
	if name != "" && leaf.VerifyHostname(name) == nil {
		return nil
	}
	for _, also := range v.names {
		if leaf.VerifyHostname(also) == nil {
			return nil
		}
	}
	asked := "the request, which has no name,"
	if name != "" {
		asked = quote(name)
	}
	if len(v.names) > 0 {
		asked += " and " + some(v.names)
	}
	return &refusal{TLSName, fmt.Sprintf("%s is for %s, and not for %s", describe(leaf), names(leaf), asked)}
}

func (v *verifier) refuseChain(leaf *x509.Certificate, err error, now time.Time) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch errors.As(err, &invalid); {
	case invalid.Reason == x509.Expired && invalid.Cert != nil:
		when := "is valid from " + day(invalid.Cert.NotBefore) + " only"
		if now.After(invalid.Cert.NotAfter) {
			when = "has expired on " + day(invalid.Cert.NotAfter)
		}
		return &refusal{TLSExpired, describe(invalid.Cert) + " " + when}
	case errors.As(err, &unknown):
		return &refusal{TLSUntrusted, fmt.Sprintf("%s leads to none of %s", describe(leaf), v.about())}
	default:
		return &refusal{TLSUntrusted, fmt.Sprintf("%s: %s; trusted: %s", describe(leaf), printable(err.Error(), maxQuoted), v.about())}
	}
}

func (v *verifier) about() string {
	if v.trust == nil || v.trust.about == "" {
		return "what is trusted: nothing is"
	}
	return printable(v.trust.about, maxAbout)
}

// refusal is a router that is not spoken to.
type refusal struct {
	cause Cause
	what  string
}

func (r *refusal) Error() string { return r.what }

const (
	// What a certificate says is shown within these bounds: whoever answers has
	// written it, and the mend comes after it.
	maxQuoted = 96
	maxAbout  = 240
	maxNamed  = 4
)

func describe(c *x509.Certificate) string {
	subject := c.Subject.String()
	if subject == "" {
		subject = "(empty)"
	}
	return fmt.Sprintf("the certificate %s, issued by %s,", quote(subject), quote(c.Issuer.String()))
}

// names are those that a certificate is for.
func names(c *x509.Certificate) string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return some(all)
}

func some(all []string) string {
	if len(all) == 0 {
		return "no name"
	}
	shown := make([]string, 0, maxNamed)
	for _, name := range all[:min(len(all), maxNamed)] {
		shown = append(shown, quote(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(all) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

func quote(s string) string { return `"` + printable(s, maxQuoted) + `"` }

// printable is what may be shown of a text of others: one line of limited length
// without control characters, and without those that change what is seen of it.
func printable(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = ' '
		}
		if b.Len() >= limit {
			b.WriteString("...")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

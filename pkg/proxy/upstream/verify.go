// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// maxSessions bounds the sessions that are kept to be resumed, by the name that was
// asked for: without `hosts` a client can ask for any. One takes some 4 KiB.
const maxSessions = 64

// verifier says which routers are spoken to. Its sessions are resumed under it
// only: with another, each router is verified from the start.
type verifier struct {
	trusted  *TrustedCAs
	names    []string
	sessions tls.ClientSessionCache
}

func newVerifier(trust *TrustedCAs, names []string) *verifier {
	return &verifier{trust, slices.Clone(names), tls.NewLRUClientSessionCache(maxSessions)}
}

// equals reports whether the verifier would be the same with these.
func (v *verifier) equals(trust *TrustedCAs, names []string) bool {
	return v.trusted == trust && slices.Equal(v.names, names)
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
		return &certificateRefusal{TLSHandshake, cause.Details{Reason: cause.NoCertificate}}
	}
	leaf := chain[0]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	// Roots is never nil, which would have the system's read. KeyUsages empty is
	// for servers.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: v.trusted.certPool(), Intermediates: between, CurrentTime: now}); err != nil {
		return v.chainRefusal(leaf, err, now)
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
	why := describeCertificate(cause.NameMismatch, leaf)
	why.Names, why.More = certificateNames(leaf)
	return &certificateRefusal{TLSName, why}
}

func (v *verifier) chainRefusal(leaf *x509.Certificate, err error, now time.Time) error {
	why, _ := ExplainCertificate(leaf, err, now)
	if why.Reason == cause.Expired || why.Reason == cause.NotYetValid {
		return &certificateRefusal{TLSExpired, why}
	}
	return &certificateRefusal{TLSUntrusted, why}
}

// ExplainCertificate is why a certificate was refused, which is leaf unless the error has
// another. It is false for an error that is not about one.
func ExplainCertificate(leaf *x509.Certificate, err error, now time.Time) (cause.Details, bool) {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var extension x509.UnhandledCriticalExtension
	var other x509.HostnameError
	switch errors.As(err, &invalid); {
	case invalid.Reason == x509.Expired && invalid.Cert != nil:
		why, when := describeCertificate(cause.NotYetValid, invalid.Cert), invalid.Cert.NotBefore
		if now.After(invalid.Cert.NotAfter) {
			why.Reason, when = cause.Expired, invalid.Cert.NotAfter
		}
		why.Time = max(0, min(when.Unix(), cause.LastTime))
		return why, true
	case invalid.Cert != nil:
		why := describeCertificate(cause.InvalidCertificate, cmp.Or(leaf, invalid.Cert))
		why.Number = int(invalid.Reason) + 1
		return why, true
	case errors.As(err, &unknown):
		return describeCertificate(cause.UnknownCA, cmp.Or(leaf, unknown.Cert)), true
	case errors.As(err, &other):
		why := describeCertificate(cause.NameMismatch, cmp.Or(leaf, other.Certificate))
		why.Names, why.More = certificateNames(cmp.Or(leaf, other.Certificate))
		return why, true
	default:
		reason := cause.InvalidCertificate
		if errors.As(err, &extension) {
			reason = cause.UnknownExtension
		}
		return describeCertificate(reason, leaf), leaf != nil
	}
}

// certificateRefusal is a router that is not spoken to.
type certificateRefusal struct {
	cause  Cause
	reason cause.Details
}

func (r *certificateRefusal) Error() string { return r.reason.Error() }

// Unwrap returns why.
func (r *certificateRefusal) Unwrap() error { return r.reason }

// describeCertificate names a certificate by what of its names can be checked.
func describeCertificate(reason cause.Reason, c *x509.Certificate) cause.Details {
	why := cause.Details{Reason: reason}
	if c == nil {
		return why
	}
	if cause.IsCommonName(c.Subject.CommonName) {
		why.Subject = c.Subject.CommonName
	}
	if cause.IsCommonName(c.Issuer.CommonName) {
		why.Issuer = c.Issuer.CommonName
	}
	return why
}

// certificateNames are the first of those that a certificate is for, and how many others there
// are.
func certificateNames(c *x509.Certificate) (first []string, more int) {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	for _, name := range all {
		if len(first) < cause.MaxNames && cause.IsHostname(name) {
			first = append(first, name)
		}
	}
	return first, min(len(all)-len(first), cause.MaxMore)
}

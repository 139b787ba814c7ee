// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// maxSessions bounds the sessions that are kept for resumption, by server name.
// Without `hosts` a client can use any name. A session takes about 4 KiB.
const maxSessions = 64

// verifier decides which routers are trusted. Its sessions can be resumed only with
// the same verifier. Another verifier verifies each router from the start.
type verifier struct {
	trusted  *TrustedCAs
	names    []string
	sessions tls.ClientSessionCache
}

func newVerifier(trust *TrustedCAs, names []string) *verifier {
	return &verifier{trust, slices.Clone(names), tls.NewLRUClientSessionCache(maxSessions)}
}

// config returns the TLS configuration of one connection with this server name,
// which may be empty.
//
// crypto/tls accepts a certificate only for the name that it also sends as SNI. Here another
// name may be valid: the router answers for the API name with the certificate of the
// applications. The verification of crypto/tls is therefore off, and verify replaces it.
// crypto/tls calls it in each handshake, also for a resumed session, before it sends the
// client's last message. If verify returns an error, the connection fails before a byte of the
// request is sent.
func (v *verifier) config(name string) *tls.Config {
	return &tls.Config{
		ServerName: name, // not sent if it is an address (RFC 6066 section 3)
		MinVersion: tls.VersionTLS12,
		// Without the post-quantum hybrids. They would split the first message into
		// two packets, which some middleboxes drop. The content can be read at the
		// VIP without encryption anyway.
		CurvePreferences:   []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
		ClientSessionCache: v.sessions,
		InsecureSkipVerify: true, //nolint:gosec // see above: VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			return v.verify(s.PeerCertificates, name, time.Now())
		},
	}
}

// verify accepts a router by the certificates that it presents. They must chain to
// a trusted CA, be valid now and be for servers. The first one must be for name or
// one of the configured names. The error is an *Error without an address.
func (v *verifier) verify(chain []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return &Error{Cause: findings.IngressTLSHandshake, ClientStatus: 502, Err: cause.Details{Reason: cause.NoCertificate}}
	}
	leaf := chain[0]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	// Roots is never nil, because nil means the system's. Empty KeyUsages mean
	// servers.
	_, err := leaf.Verify(x509.VerifyOptions{Roots: v.trusted.certPool(), Intermediates: between, CurrentTime: now})
	if err == nil {
		err = v.verifyName(leaf, name)
	}
	if err == nil {
		return nil
	}
	return untrusted(leaf, err, now)
}

// verifyName checks the names of a certificate. A configured name with an asterisk
// matches the name in the certificate literally, as x509 does with a name that is
// not a host name.
func (v *verifier) verifyName(leaf *x509.Certificate, name string) error {
	if slices.ContainsFunc(v.names, func(allowed string) bool { return leaf.VerifyHostname(allowed) == nil }) {
		return nil
	}
	return leaf.VerifyHostname(name)
}

// untrusted returns the error for a certificate that crypto/x509 rejects.
func untrusted(leaf *x509.Certificate, err error, now time.Time) *Error {
	details, _ := ExplainCertificate(leaf, err, now)
	e := &Error{Cause: findings.IngressTLSUntrusted, ClientStatus: 502, Err: details}
	switch details.Reason {
	case cause.Expired, cause.NotYetValid:
		e.Cause = findings.IngressTLSExpired
	case cause.NameMismatch:
		e.Cause = findings.IngressTLSName
	default:
	}
	return e
}

// ExplainCertificate returns why a certificate was rejected. It describes leaf
// unless the error contains another certificate. It returns false for an error that
// is not about a certificate.
func ExplainCertificate(leaf *x509.Certificate, err error, now time.Time) (cause.Details, bool) {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var extension x509.UnhandledCriticalExtension
	var other x509.HostnameError
	switch errors.As(err, &invalid); {
	case invalid.Reason == x509.Expired && invalid.Cert != nil:
		details, when := describeCertificate(cause.NotYetValid, invalid.Cert), invalid.Cert.NotBefore
		if now.After(invalid.Cert.NotAfter) {
			details.Reason, when = cause.Expired, invalid.Cert.NotAfter
		}
		details.Time = max(0, min(when.Unix(), cause.LastTime))
		return details, true
	case invalid.Cert != nil:
		details := describeCertificate(cause.InvalidCertificate, cmp.Or(leaf, invalid.Cert))
		details.Number = int(invalid.Reason) + 1
		return details, true
	case errors.As(err, &unknown):
		return describeCertificate(cause.UnknownCA, cmp.Or(leaf, unknown.Cert)), true
	case errors.As(err, &other):
		details := describeCertificate(cause.NameMismatch, cmp.Or(leaf, other.Certificate))
		details.Names, details.More = certificateNames(cmp.Or(leaf, other.Certificate))
		return details, true
	default:
		reason := cause.InvalidCertificate
		if errors.As(err, &extension) {
			reason = cause.UnknownExtension
		}
		return describeCertificate(reason, leaf), leaf != nil
	}
}

// describeCertificate adds those names of a certificate that pass the check.
func describeCertificate(reason cause.Reason, c *x509.Certificate) cause.Details {
	details := cause.Details{Reason: reason}
	if c != nil && cause.IsCommonName(c.Subject.CommonName) {
		details.Subject = c.Subject.CommonName
	}
	if c != nil && cause.IsCommonName(c.Issuer.CommonName) {
		details.Issuer = c.Issuer.CommonName
	}
	return details
}

// certificateNames returns the first names that a certificate is for, and the
// number of the others.
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

// TrustedCAs are the CA certificates that verify a router. Nothing is read from the
// host, because the process that verifies can open no file.
type TrustedCAs struct{ parse func() *x509.CertPool }

// NewTrustedCAs returns the trust in roots, certificates in DER. Without roots
// nothing is trusted. The caller must not change roots afterwards.
func NewTrustedCAs(roots [][]byte) *TrustedCAs { return (*TrustedCAs)(nil).extendedBy(roots) }

// extendedBy returns the trust in the roots of t and in other roots. The roots are parsed when
// the first router is verified; most hosts never use TLS. The pool keeps their subjects and
// their encoding, and parses again only the roots of a chain. A host's system trust contains
// about 150.
func (t *TrustedCAs) extendedBy(roots [][]byte) *TrustedCAs {
	return &TrustedCAs{sync.OnceValue(func() *x509.CertPool {
		pool := t.certPool().Clone()
		for _, der := range roots {
			pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		}
		return pool
	})}
}

func (t *TrustedCAs) certPool() *x509.CertPool {
	if t == nil {
		return x509.NewCertPool()
	}
	return t.parse()
}

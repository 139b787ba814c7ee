// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// minRSA is the minimal size that auditors require, and that Go's TLS will require.
const minRSA = 2048

type bundleFilter struct {
	now    time.Time
	seen   map[[32]byte]int // the line of each certificate
	size   int              // of the accepted certificates
	bundle Bundle
}

func (j *bundleFilter) addBlock(b block) error {
	certificate, flaw := parseBlock(b)
	if flaw != "" {
		j.skip(report.IgnoredCertificate{Line: b.line, Reason: flaw})
		return nil
	}
	subject := printable.Truncate(certificate.Subject.String(), maxSubject)
	out := report.IgnoredCertificate{Line: b.line, Subject: subject, Serial: formatSerial(certificate)}
	id := sha256.Sum256(certificate.Raw)
	first, again := j.seen[id]
	switch {
	case again:
		out.Reason = fmt.Sprintf("duplicate of line %d", first)
	default:
		j.seen[id] = b.line
		if out.Reason = unsuitable(certificate); out.Reason == "" {
			out.Reason = outsideValidity(certificate, j.now)
		}
	}
	if out.Reason != "" {
		j.skip(out)
		return nil
	}
	if j.size += len(certificate.Raw); j.size > maxDER {
		return &Rejection{
			Line: b.line, Message: fmt.Sprintf("more than %d KiB of certificates up to this line", maxDER>>10),
			Remediation: "keep only the CAs that issue the ingress's certificates",
		}
	}
	// A copy: the parsed certificate keeps the whole file in memory.
	j.bundle.Roots = append(j.bundle.Roots, Certificate{DER: bytes.Clone(certificate.Raw), Subject: out.Subject})
	return nil
}

func (j *bundleFilter) skip(l report.IgnoredCertificate) {
	j.bundle.SkippedCount++
	if len(j.bundle.Skipped) < maxSkipped {
		j.bundle.Skipped = append(j.bundle.Skipped, l)
	}
}

// parseBlock returns the certificate of a block, or the reason why the block is
// rejected.
func parseBlock(b block) (certificate *x509.Certificate, flaw string) {
	switch {
	case b.flaw != "":
		return nil, b.flaw
	case b.kind != "CERTIFICATE":
		return nil, b.wrongKind()
	}
	found, rest := pem.Decode(b.text)
	switch {
	case found == nil || len(rest) > 0:
		return nil, "invalid base64"
	case len(found.Headers) > 0:
		return nil, "header lines are not supported"
	}
	certificate, err := x509.ParseCertificate(found.Bytes)
	if err != nil {
		// The error texts of the parser quote nothing of the file.
		return nil, "not a certificate: " + printable.Truncate(strings.TrimPrefix(err.Error(), "x509: "), maxSubject)
	}
	return certificate, ""
}

// unsuitable returns the reason why a certificate can never be trusted.
func unsuitable(c *x509.Certificate) string {
	if !c.BasicConstraintsValid || !c.IsCA {
		return "not a CA certificate (no CA:TRUE in the basic constraints)"
	}
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return "not a CA certificate (the key usage does not allow signing certificates)"
	}
	if c.PublicKeyAlgorithm == x509.UnknownPublicKeyAlgorithm || c.PublicKeyAlgorithm == x509.DSA {
		return "unsupported type of key"
	}
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSA {
		return fmt.Sprintf("the RSA key has fewer than %d bits", minRSA)
	}
	if !bytes.Equal(c.RawIssuer, c.RawSubject) && isForgeable(c.SignatureAlgorithm) {
		return fmt.Sprintf("signed with %v, which can be forged", c.SignatureAlgorithm)
	}
	return ""
}

// isForgeable reports whether other parties can forge such a signature. The signature
// of a self-issued certificate proves nothing, so its algorithm does not matter.
func isForgeable(a x509.SignatureAlgorithm) bool {
	switch a {
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1:
		return true
	default:
		return false
	}
}

// outsideValidity returns the reason why a certificate is not trusted now. NotAfter itself is still
// valid (RFC 5280, 4.1.2.5).
func outsideValidity(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return "not valid before " + formatDate(c.NotBefore)
	case now.After(c.NotAfter):
		return "expired on " + formatDate(c.NotAfter)
	default:
		return ""
	}
}

func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

const (
	maxSubject = 200 // bytes
	maxSerial  = 64
)

// formatSerial limits the length. RFC 5280 allows 20 bytes, but certificates can
// contain more.
func formatSerial(c *x509.Certificate) string {
	return printable.Truncate(c.SerialNumber.Text(16), maxSerial)
}

// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// tlsType is the type of Secrets with a certificate.
const tlsType = "kubernetes.io/tls"

// inspect returns what a Secret with a certificate for names means, the reason, and since when. A Secret that does not
// exist is nil.
func inspect(s *Object, names []string, now time.Time) (r rule, reason string, since time.Time) {
	r = rule{outcome: report.CheckProblem, state: "missing", finding: findings.NamedCertificateMissing}
	if s == nil {
		return r, "", since
	}
	r.state, r.finding = "invalid", findings.NamedCertificateInvalid
	if _, has := s.Data["tls.key"]; !has {
		return r, "it has no tls.key", since
	}
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		return r, "its tls.crt contains no certificate", since
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return r, fmt.Sprintf("its tls.crt cannot be parsed: %v", err), since
	}
	for _, name := range names {
		if c.VerifyHostname(strings.TrimSuffix(name, ".")) != nil {
			return r, fmt.Sprintf("its certificate does not contain %.253q", name), c.NotBefore
		}
	}
	until := fmt.Sprintf("until %s, issued by %q", c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), c.Issuer.CommonName)
	switch {
	case now.After(c.NotAfter):
		return rule{outcome: r.outcome, state: "expired", finding: findings.NamedCertificateExpired}, until, c.NotAfter
	case s.Type != tlsType:
		r.outcome = report.CheckWarning
		return r, fmt.Sprintf("its type is %.100q instead of %s", s.Type, tlsType), since
	}
	return rule{outcome: report.CheckOK, state: "valid"}, until, c.NotBefore
}

// JudgeNamed returns what is wrong with the entries of namedCertificates: names that are in two of them, and Secrets.
// Without Secrets (nil), these are not judged. A zero time does not judge expiry.
func JudgeNamed(entries []NamedCertificate, secrets []Object, now time.Time) (found []findings.Finding) {
	fields := map[string]string{} // of the names
	for i, e := range entries {
		values := findings.Values{"field": fieldOf(i), "secret": clean(e.Secret.Name), "namespace": Namespace}
		for _, name := range e.Names {
			values["name"] = clean(name)
			if other, twice := fields[name]; twice {
				found = append(found, findings.New(findings.NamedCertificateTwice, values.With("other", other)))
			}
			fields[name] = fieldOf(i)
		}
		r, reason, since := inspect(find(secrets, "Secret", Namespace, e.Secret.Name), e.Names, now)
		if secrets != nil && r.finding != "" {
			f := findings.New(r.finding, values.With("error", reason).With("date", since.UTC().Format(time.RFC3339)))
			f.Level = findings.Level(r.outcome)
			found = append(found, f)
		}
	}
	return found
}

// fieldOf is the path of an entry of namedCertificates.
func fieldOf(i int) string { return fmt.Sprintf("spec.servingCerts.namedCertificates[%d]", i) }

// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// Secret is a Secret with a certificate. Only the value of tls.crt is used.
type Secret struct {
	Metadata metadata          `json:"metadata"`
	Type     string            `json:"type"`
	Data     map[string][]byte `json:"data"`
}

// tlsType is the type of Secrets with a certificate.
const tlsType = "kubernetes.io/tls"

// certificate returns the first certificate in the Secret.
func (s Secret) certificate() (*x509.Certificate, error) {
	for _, key := range []string{"tls.crt", "tls.key"} {
		if _, has := s.Data[key]; !has {
			return nil, fmt.Errorf("it has no %s", key)
		}
	}
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		return nil, errors.New("its tls.crt contains no certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its tls.crt cannot be parsed: %w", err)
	}
	return c, nil
}

// JudgeNames returns the names that are in two entries of namedCertificates.
func JudgeNames(entries []NamedCertificate) (found []findings.Finding) {
	fields := map[string]string{} // of the names
	for i, e := range entries {
		for _, name := range e.Names {
			if other, twice := fields[name]; twice {
				values := findings.Values{"field": fieldOf(i), "name": clean(name), "other": other}
				found = append(found, findings.New(findings.NamedCertificateTwice, values))
			}
			fields[name] = fieldOf(i)
		}
	}
	return found
}

// fieldOf is the path of an entry of namedCertificates.
func fieldOf(i int) string { return fmt.Sprintf("spec.servingCerts.namedCertificates[%d]", i) }

// JudgeSecrets returns what is wrong with the Secrets of the entries. A zero time does not judge expiry.
func JudgeSecrets(entries []NamedCertificate, secrets []Secret, now time.Time) (found []findings.Finding) {
	for i, e := range entries {
		values := findings.Values{"field": fieldOf(i), "secret": clean(e.Secret.Name), "namespace": Namespace}
		if len(e.Names) > 0 {
			values["name"] = clean(e.Names[0])
		}
		found = append(found, judgeSecret(e, lookUp(secrets, Namespace, e.Secret.Name), values, now)...)
	}
	return found
}

// judgeSecret judges the Secret of an entry, which is nil if it does not exist.
func judgeSecret(e NamedCertificate, s *Secret, values findings.Values, now time.Time) (found []findings.Finding) {
	if s == nil {
		return []findings.Finding{findings.New(findings.NamedCertificateMissing, values)}
	}
	invalid := func(reason string) findings.Finding {
		return findings.New(findings.NamedCertificateInvalid, values.With("error", reason))
	}
	c, err := s.certificate()
	if err != nil {
		return []findings.Finding{invalid(err.Error())}
	}
	if s.Type != tlsType {
		f := invalid(fmt.Sprintf("its type is %.100q instead of %s", s.Type, tlsType))
		f.Level = findings.Warning
		found = append(found, f)
	}
	for _, name := range e.Names {
		if c.VerifyHostname(strings.TrimSuffix(name, ".")) != nil {
			found = append(found, invalid(fmt.Sprintf("its certificate does not contain %.253q", name)))
		}
	}
	if !now.IsZero() && now.After(c.NotAfter) {
		found = append(found, findings.New(findings.NamedCertificateExpired,
			values.With("date", c.NotAfter.UTC().Format(time.RFC3339))))
	}
	return found
}

// lookUp returns the Secret with this name; nil without it.
func lookUp(secrets []Secret, namespace, name string) *Secret {
	i := slices.IndexFunc(secrets, func(s Secret) bool {
		return s.Metadata.Namespace == namespace && s.Metadata.Name == name
	})
	if i < 0 {
		return nil
	}
	return &secrets[i]
}

// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// DistinctCertificates returns the certificates without those that are presented at another address
// too, which are one fault.
func DistinctCertificates(all []report.Certificate) []report.Certificate {
	type key struct {
		name, issuer, serial, failure string
		notBefore, notAfter           time.Time
	}
	seen := map[key]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(c report.Certificate) bool {
		k := key{c.Name, c.Issuer, c.Serial, c.Error, c.NotBefore.UTC(), c.NotAfter.UTC()}
		known := seen[k]
		seen[k] = true
		return known
	})
}

// HostCertificate evaluates a certificate in the report of a host. Only the holder of a VIP knows why
// the API server presents none.
func HostCertificate(r report.Report, c report.Certificate, now time.Time) []findings.Finding {
	switch {
	case c.Error == "":
		return Certificate(c, now)
	case isElsewhere(r, c.Address):
		return nil
	default:
		return []findings.Finding{
			findings.New(findings.APIServerUnreachable, findings.Values{"server": c.Address, "error": c.Error}),
		}
	}
}

// Certificate evaluates the remaining lifetime of a certificate, and its renewal.
func Certificate(c report.Certificate, now time.Time) []findings.Finding {
	values := findings.Values{
		"server": c.Address, "name": c.Name, "requested": cmp.Or(c.Name, "clients without SNI"),
		"issuer": strconv.Quote(c.Issuer),
		"date":   c.NotAfter.UTC().Format(time.RFC3339), "left": report.Age(c.NotAfter.Sub(now)), "renewal": "",
	}
	if renewal := c.DescribeRenewal(now); renewal != "" {
		values["renewal"] = "; " + renewal
	}
	var id findings.ID
	switch stage := c.Stage(now); {
	case stage == report.CertificateNotYetValid:
		id, values["date"] = findings.CertificateNotYetValid, c.NotBefore.UTC().Format(time.RFC3339)
	case stage == report.CertificateExpired:
		id = findings.CertificateExpired
	case stage == report.CertificateUrgent:
		id = findings.CertificateExpiryUrgent
	case c.FailedRenewals > 0:
		id, values["time"] = findings.RenewalAttemptFailed, c.LastFailure.UTC().Format(time.RFC3339)
	case stage == report.CertificateRenewalLate:
		id = findings.CertificateExpiresSoon
	default:
		return nil
	}
	return []findings.Finding{findings.New(id, values)}
}

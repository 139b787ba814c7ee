// SPDX-License-Identifier: Apache-2.0

package result

import (
	"cmp"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// CertificateFindings evaluates the remaining lifetime of a certificate, and its renewal.
func CertificateFindings(c report.Certificate, now time.Time) []findings.Finding {
	values := findings.Values{
		"server": c.Address, "requested": cmp.Or(c.Name, "clients without SNI"), "issuer": strconv.Quote(c.Issuer),
		"date": c.NotAfter.UTC().Format(time.RFC3339), "left": report.Age(c.NotAfter.Sub(now)), "renewal": "",
	}
	if renewal := c.DescribeRenewal(); renewal != "" {
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

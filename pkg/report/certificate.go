// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// CertificateStage classifies the remaining lifetime of a certificate.
type CertificateStage int

// The stages. Their bounds are fractions of the lifetime: certificates are valid for 90,
// 64 or 45 days or for 160 h, so a fixed number of days would report too early or too late.
const (
	CertificateFresh       CertificateStage = iota
	CertificateRenewalLate                  // less than a quarter of the lifetime is left
	CertificateUrgent                       // less than a tenth of the lifetime or less than urgentBelow is left
	CertificateExpired                      // NotAfter has passed
	CertificateNotYetValid                  // NotBefore is in the future: a clock is wrong
)

// urgentBelow is the remaining time that is urgent for any lifetime, unless it is more
// than a quarter of it: a certificate that is valid for two days is fresh with one left.
const urgentBelow = 24 * time.Hour

// Stage returns the stage of the certificate at a time.
func (c Certificate) Stage(now time.Time) CertificateStage {
	return CertificateStageAt(c.NotBefore, c.NotAfter, now)
}

// CertificateStageAt returns the stage of a certificate with these dates.
func CertificateStageAt(notBefore, notAfter, now time.Time) CertificateStage {
	left, life := notAfter.Sub(now), notAfter.Sub(notBefore)
	switch {
	case now.Before(notBefore):
		return CertificateNotYetValid
	case left <= 0:
		return CertificateExpired
	case left < life/10 || left < urgentBelow && left < life/4:
		return CertificateUrgent
	case left < life/4:
		return CertificateRenewalLate
	default:
		return CertificateFresh
	}
}

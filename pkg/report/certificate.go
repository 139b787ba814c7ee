// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// CertificateStage is how far a certificate's life has gone.
type CertificateStage int

// The stages. Their bounds are parts of the lifetime: certificates live for 90,
// 45 or 6 days, so days alone would cry wolf.
const (
	CertificateFresh       CertificateStage = iota
	CertificateRenewalLate                  // less than a quarter of the lifetime is left: a renewal is late
	CertificateUrgent                       // less than a tenth, or less than a day
	CertificateExpired                      // its time is over
	CertificateNotYetValid                  // its time has not begun: a clock is wrong
)

// urgentBelow is when it is urgent whatever the lifetime, unless more than a quarter of
// it is left then: a certificate that lives for two days is fresh with one to go.
const urgentBelow = 24 * time.Hour

// CertificateStage is the certificate's at that time.
func (c Certificate) Stage(now time.Time) CertificateStage {
	return CertificateStageAt(c.NotBefore, c.NotAfter, now)
}

// CertificateStageAt is that of a certificate with these dates.
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

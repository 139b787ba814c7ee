// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// Stage is how far a certificate's life has gone.
type Stage int

// The stages. Their bounds are parts of the lifetime: certificates live for 90,
// 45 or 6 days, so days alone would cry wolf.
const (
	Fresh       Stage = iota
	Expiring          // less than a quarter of the lifetime is left: a renewal is late
	Urgent            // less than a tenth, or less than a day
	Expired           // its time is over
	NotYetValid       // its time has not begun: a clock is wrong
)

// lastDay is when it is urgent whatever the lifetime, unless more than a quarter of
// it is left then: a certificate that lives for two days is fresh with one to go.
const lastDay = 24 * time.Hour

// Stage is the certificate's at that time.
func (c Certificate) Stage(now time.Time) Stage { return StageOf(c.NotBefore, c.NotAfter, now) }

// StageOf is that of a certificate with these dates.
func StageOf(notBefore, notAfter, now time.Time) Stage {
	left, life := notAfter.Sub(now), notAfter.Sub(notBefore)
	switch {
	case now.Before(notBefore):
		return NotYetValid
	case left <= 0:
		return Expired
	case left < life/10 || left < lastDay && left < life/4:
		return Urgent
	case left < life/4:
		return Expiring
	default:
		return Fresh
	}
}

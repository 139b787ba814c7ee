// SPDX-License-Identifier: Apache-2.0

package status

import "time"

// Stage is how far a certificate's life has gone.
type Stage int

// The stages. Their bounds are parts of the lifetime: certificates live for 90,
// 45 or 6 days, so days alone would cry wolf.
const (
	Fresh       Stage = iota
	Expiring          // less than a quarter of the lifetime is left: a renewal is late
	Urgent            // less than a tenth, or a day
	Expired           // its time is over
	NotYetValid       // its time has not begun: a clock is wrong
)

// Stage is the certificate's at that time.
func (c Certificate) Stage(now time.Time) Stage {
	left, life := c.NotAfter.Sub(now), c.NotAfter.Sub(c.NotBefore)
	switch {
	case now.Before(c.NotBefore):
		return NotYetValid
	case left <= 0:
		return Expired
	case left < life/10 || left < 24*time.Hour:
		return Urgent
	case left < life/4:
		return Expiring
	default:
		return Fresh
	}
}

// SPDX-License-Identifier: Apache-2.0

package expiry

import "time"

// Level is how near the end of a certificate is.
type Level int

// The levels, from good to bad.
const (
	Good   Level = iota
	Ageing       // less than a quarter of its lifetime is left: whoever renews it is late
	Urgent       // less than a tenth, or less than a day
	Expired
)

// lastDay is when it is urgent whatever the lifetime, unless more than a quarter of
// it is left then: a certificate that lives for two days is fresh with one to go.
const lastDay = 24 * time.Hour

// Judge tells how near the end of a certificate is. Certificates live 90, 45 or 6
// days, and others a few hours: how many days are left says little by itself.
func Judge(notBefore, notAfter, now time.Time) Level {
	life, left := notAfter.Sub(notBefore), notAfter.Sub(now)
	switch {
	case left <= 0:
		return Expired
	case left < life/10, left < lastDay && left < life/4:
		return Urgent
	case left < life/4:
		return Ageing
	default:
		return Good
	}
}

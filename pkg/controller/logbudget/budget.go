// SPDX-License-Identifier: Apache-2.0

package logbudget

import "time"

// Budget bounds entries: size of them at once, and refill a minute after that.
type Budget struct {
	size, refill float64
	available    float64
	updated      time.Time // when available was computed
}

// New returns a full budget.
func New(size, refill float64) Budget {
	return Budget{size: size, refill: refill, available: size}
}

// Spend takes an entry from the budget, if there is one.
func (b *Budget) Spend(now time.Time) bool { return b.SpendAbove(0, now) }

// SpendAbove is Spend that leaves a reserve to others.
func (b *Budget) SpendAbove(reserve float64, now time.Time) bool {
	if passed := now.Sub(b.updated); passed > 0 {
		if !b.updated.IsZero() {
			b.available = min(b.size, b.available+b.refill*passed.Minutes())
		}
		b.updated = now
	}
	if b.available < 1+reserve {
		return false
	}
	b.available--
	return true
}

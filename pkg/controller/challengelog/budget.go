// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// budget bounds entries: size of them at once, and refill a minute after that.
type budget struct {
	size, refill float64
	available    float64
	updated      time.Time // when available was computed
}

func newBudget(size, refill float64) budget {
	return budget{size: size, refill: refill, available: size}
}

// spend takes an entry from the budget, if there is one.
func (b *budget) spend(now time.Time) bool {
	if passed := now.Sub(b.updated); passed > 0 {
		if !b.updated.IsZero() {
			b.available = min(b.size, b.available+b.refill*passed.Minutes())
		}
		b.updated = now
	}
	if b.available < 1 {
		return false
	}
	b.available--
	return true
}

// budgets are those of the three kinds of challenges. Anybody can request tokens that do
// not exist, with any User-Agent: challenges that no solver has answered soon get only a
// few entries a minute, and an entry with the number of the others.
type budgets struct {
	answered budget // by a solver, which a stranger cannot forge
	known    budget // from cert-manager or a CA by the User-Agent; cert-manager runs 60 challenges at most
	unknown  budget
}

func newBudgets() budgets {
	return budgets{answered: newBudget(240, 240), known: newBudget(120, 6), unknown: newBudget(10, 1)}
}

func (b *budgets) of(c *openChallenge) *budget {
	switch {
	case c.Answered > 0:
		return &b.answered
	case c.fromKnownClient():
		return &b.known
	default:
		return &b.unknown
	}
}

// unknownClient reports whether a client is neither cert-manager nor a CA with its own
// User-Agent.
func unknownClient(k report.ClientKind) bool { return k == report.OtherClient || k == report.StepCA }

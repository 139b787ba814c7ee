// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// budget bounds lines: size of them at once, and then so many in a minute.
type budget struct {
	size, refill float64
	available    float64
	updated      time.Time // when left was right
}

func newBudget(size, refill float64) budget {
	return budget{size: size, refill: refill, available: size}
}

// spend takes a line, if there is one left.
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

// budgets are those of the three kinds of challenges. Whoever asks for tokens that
// do not exist can send any User-Agent: what no solver has answered is soon down to
// a few lines a minute, and a line with the count of the rest.
type budgets struct {
	answered budget // a solver has answered, which no stranger can make up
	known    budget // cert-manager or a CA asks, as it seems; cert-manager has at most 60 under way
	unknown  budget
}

func newBudgets() budgets {
	return budgets{answered: newBudget(240, 240), known: newBudget(120, 6), unknown: newBudget(10, 1)}
}

func (b *budgets) of(s *openChallenge) *budget {
	switch {
	case s.Answered > 0:
		return &b.answered
	case s.fromKnownClient():
		return &b.known
	default:
		return &b.unknown
	}
}

// unknownClient holds for who is neither cert-manager nor a CA that names itself.
func unknownClient(a report.ClientKind) bool { return a == report.OtherClient || a == report.StepCA }

// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// budget bounds lines: size of them at once, and then so many in a minute.
type budget struct {
	size, refill float64
	left         float64
	at           time.Time // when left was right
}

func newBudget(size, refill float64) budget { return budget{size: size, refill: refill, left: size} }

// spend takes a line, if there is one left.
func (b *budget) spend(now time.Time) bool {
	if passed := now.Sub(b.at); passed > 0 {
		if !b.at.IsZero() {
			b.left = min(b.size, b.left+b.refill*passed.Minutes())
		}
		b.at = now
	}
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// budgets are those of the three kinds of challenges. Whoever asks for tokens that
// do not exist can send any User-Agent: what no solver has answered is soon down to
// a few lines a minute, and a line with the count of the rest.
type budgets struct {
	good     budget // a solver has answered, which no stranger can make up
	wanted   budget // cert-manager or a CA asks, as it seems; cert-manager has at most 60 under way
	stranger budget
}

func newBudgets() budgets {
	return budgets{good: newBudget(240, 240), wanted: newBudget(120, 6), stranger: newBudget(10, 1)}
}

func (b *budgets) of(s *told) *budget {
	switch {
	case s.Good > 0:
		return &b.good
	case s.wanted():
		return &b.wanted
	default:
		return &b.stranger
	}
}

// stranger holds for who is neither cert-manager nor a CA that names itself.
func stranger(a report.Asker) bool { return a == report.OtherAsker || a == report.StepCA }

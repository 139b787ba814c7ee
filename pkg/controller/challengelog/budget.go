// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/logbudget"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// budgets are those of the three kinds of challenges. Anybody can request tokens that do
// not exist, with any User-Agent: challenges that no solver has answered soon get only a
// few entries a minute, and an entry with the number of the others.
type budgets struct {
	answered logbudget.Budget // by a solver, which a stranger cannot forge
	known    logbudget.Budget // from cert-manager or a CA by the User-Agent; cert-manager runs 60 challenges at most
	unknown  logbudget.Budget
}

func newBudgets() budgets {
	return budgets{answered: logbudget.New(240, 240), known: logbudget.New(120, 6), unknown: logbudget.New(10, 1)}
}

func (b *budgets) of(c *Challenge) *logbudget.Budget {
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

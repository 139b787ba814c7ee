// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/logbudget"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// sourceEntries is how many entries a source gets in sourceWindow before it leaves a reserve
	// to others: a challenge starts, changes and ends.
	sourceEntries = 3
	sourceWindow  = 10 * time.Minute
)

// entryBudget bounds the journal entries of a group. Anybody can request tokens that do not
// exist, from many addresses, with any User-Agent. So a third of the budget is reserved for
// sources that did not use up their share. Another third is reserved for the ends of challenges
// that last: these get an entry despite a flood of invented tokens from the same address.
type entryBudget struct {
	size        float64
	entries     logbudget.Budget
	sources     map[netip.Prefix]int // entries of each since windowStart; the budget bounds them
	windowStart time.Time
}

func newEntryBudget(size, refill float64) entryBudget {
	return entryBudget{size: size, entries: logbudget.New(size, refill), sources: make(map[netip.Prefix]int)}
}

func (b *entryBudget) spend(kind EventKind, c *Challenge, now time.Time) bool {
	if now.Sub(b.windowStart) >= sourceWindow {
		clear(b.sources)
		b.windowStart = now
	}
	reserve := 0.0
	if b.sources[c.source] >= sourceEntries {
		reserve += b.size / 3
	}
	if kind != Ended || !c.repeated {
		reserve += b.size / 3
	}
	if !b.entries.SpendAbove(reserve, now) {
		return false
	}
	b.sources[c.source]++
	return true
}

// unknownClient reports whether a client is neither cert-manager nor a CA with its own
// User-Agent.
func unknownClient(k report.ClientKind) bool {
	return k == report.OtherClient || k == report.StepCA || k == report.CheckClient
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
)

// CheckOutcome is the result of a check, or of all checks of a host, of a cluster or of objects.
type CheckOutcome string

// The outcomes. A finding is a problem or a warning, as its level says.
const (
	CheckNotApplicable CheckOutcome = "nothing" // there is nothing to check on this host
	CheckSkipped       CheckOutcome = "skipped" // the check could not run, or there is nothing to check
	CheckOK            CheckOutcome = "ok"
	CheckWarning       CheckOutcome = LevelWarning
	CheckIncomplete    CheckOutcome = "incomplete" // no problem was found, but not everything was checked
	CheckProblem       CheckOutcome = LevelProblem
)

// checkOutcomes has the worst outcome last.
func checkOutcomes() []CheckOutcome {
	return []CheckOutcome{CheckNotApplicable, CheckSkipped, CheckOK, CheckWarning, CheckIncomplete, CheckProblem}
}

// IsKnown reports whether the outcome is one of this version.
func (o CheckOutcome) IsKnown() bool { return slices.Contains(checkOutcomes(), o) }

// Worst returns the worst of outcomes.
func Worst(first CheckOutcome, others ...CheckOutcome) CheckOutcome {
	return slices.MaxFunc(append(others, first), func(a, b CheckOutcome) int {
		return cmp.Compare(slices.Index(checkOutcomes(), a), slices.Index(checkOutcomes(), b))
	})
}

// Conclude returns the outcome of findings with these levels, and a summary.
func Conclude(levels []string, incomplete bool) (outcome CheckOutcome, summary string) {
	outcome = CheckOK
	if incomplete {
		outcome = CheckIncomplete
	}
	for _, level := range levels {
		outcome = Worst(outcome, CheckOutcome(level))
	}
	return outcome, outcome.Summarize(levels)
}

// Summarize returns the outcome with the levels of the findings in a few words.
func (o CheckOutcome) Summarize(levels []string) string {
	text := cmp.Or(CountLevels(levels), "No problem was found")
	switch {
	case o == CheckProblem && !slices.Contains(levels, LevelProblem): // for instance, a challenge fails
		return "A problem was found"
	case o == CheckIncomplete:
		return text + ", but not everything was checked"
	}
	return text
}

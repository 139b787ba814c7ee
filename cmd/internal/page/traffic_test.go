// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestOutcomesHaveMeanings: a page explains each outcome and each rejection.
func TestOutcomesHaveMeanings(t *testing.T) {
	t.Parallel()
	all := report.Outcomes()
	for _, rejection := range report.Rejections() {
		all = append(all, report.Outcome(rejection))
	}
	for _, outcome := range all {
		if outcomeMeaning(outcome) == "" {
			t.Errorf("outcomeMeaning does not explain %s", outcome)
		}
	}
}

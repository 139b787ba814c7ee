// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// outcomeLabels returns the outcomes of requests that were forwarded.
func outcomeLabels() []string { return labelValues(report.Outcomes()) }

// refusalLabels returns the outcomes of requests that were refused.
func refusalLabels() []string { return labelValues(report.Refusals()) }

// clientLabels returns all values of the label client.
func clientLabels() []string { return labelValues(report.ClientKinds()) }

// causeLabels returns all values of the label cause.
func causeLabels() []string { return findings.Causes() }

func labelValues[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

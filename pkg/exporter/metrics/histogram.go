// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The buckets end at powers of two: from about a millisecond to more than any request
// takes. A report has 2^schema buckets for each power of two.
const (
	firstPower = -10
	lastPower  = 6
	schema     = 3
)

// durationHistogram computes the total count from the buckets, so that both add up.
func durationHistogram(h report.Histogram) prometheus.Metric {
	desc := prometheus.NewDesc(prefix+"request_duration_seconds",
		"Time from a complete challenge request to the end of its response, in seconds, for the requests that "+
			"http01-proxyd forwarded to the ingress.", nil, nil)
	buckets := make(map[float64]uint64)
	for power := firstPower; power <= lastPower; power++ {
		buckets[math.Ldexp(1, power)] = cumulativeCount(h, power<<schema)
	}
	return prometheus.MustNewConstHistogram(desc, cumulativeCount(h, math.MaxInt), h.Sum, buckets)
}

// cumulativeCount sums the buckets of a report up to last.
func cumulativeCount(h report.Histogram, last int) (n uint64) {
	for i, count := range h.Buckets {
		if i <= last {
			n += count
		}
	}
	return n
}

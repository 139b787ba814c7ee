// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The buckets end at powers of two: from about a millisecond to more than any request
// takes. A report has 2^schema buckets for each power of two.
const (
	firstPower = -10
	lastPower  = 6
	schema     = 3
)

// histogram is the kind of a family with buckets.
const histogram = "histogram"

// addDurations computes the total count from the buckets, so that both add up.
func (m *metricSet) addDurations(h report.Histogram) {
	f := m.newFamily(histogram, "request_duration_seconds",
		"Time from a complete challenge request to the end of its response, in seconds, for the requests that "+
			"http01-proxyd forwarded to the ingress.", fromHost("le"))
	for power := firstPower; power <= lastPower; power++ {
		f.addBucket(formatFloat(math.Ldexp(1, power)), cumulativeCount(h, power<<schema))
	}
	count := cumulativeCount(h, math.MaxInt)
	f.addBucket("+Inf", count)
	f.series = append(f.series, series{suffix: "_sum", value: h.Sum}, series{suffix: "_count", value: float64(count)})
}

func (f *family) addBucket(bound string, count uint64) {
	f.series = append(f.series, series{suffix: "_bucket", labels: []string{bound}, value: float64(count)})
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

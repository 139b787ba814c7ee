// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// schema is that of status.Histogram: 2^schema native buckets a doubling.
	schema = 3
	// zeroThreshold is what Prometheus's own histograms have. No duration is below.
	zeroThreshold = 0x1p-128

	// The classic buckets end at powers of two: from about a millisecond to what no
	// request takes.
	firstClassic = -10
	lastClassic  = 6
)

// histogram is a metric with native and with classic buckets: a scraper takes what
// it knows.
type histogram struct {
	desc   *prometheus.Desc
	counts report.Histogram
}

func durationHistogram(h report.Histogram) histogram {
	return histogram{prometheus.NewDesc(prefix+"request_duration_seconds",
		"Time from a complete request to the end of its answer, for requests that went to the ingress.", nil, nil), h}
}

// Desc implements prometheus.Metric.
func (h histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric. The number of all is taken from the buckets:
// both kinds have to add up.
func (h histogram) Write(out *dto.Metric) error {
	native, classic, count := make(map[int]int64), make(map[float64]uint64), uint64(0)
	for i, n := range h.counts.Buckets {
		native[i] = int64(n) //nolint:gosec // no service answers that many
		count += n
	}
	for power := firstClassic; power <= lastClassic; power++ {
		classic[math.Ldexp(1, power)] = cumulativeCount(h.counts, power<<schema)
	}
	n, err := prometheus.NewConstNativeHistogram(h.desc, count, h.counts.Sum, native, nil, 0, schema, zeroThreshold, time.Time{})
	if err != nil {
		return err
	}
	if err := n.Write(out); err != nil {
		return err
	}
	out.Histogram.CreatedTimestamp = nil // nobody has noted it
	c, err := prometheus.NewConstHistogram(h.desc, count, h.counts.Sum, classic)
	if err != nil {
		return err
	}
	var other dto.Metric
	if err := c.Write(&other); err != nil {
		return err
	}
	out.Histogram.Bucket = other.GetHistogram().GetBucket()
	return nil
}

// cumulativeCount counts what is in the native buckets up to this one.
func cumulativeCount(h report.Histogram, last int) (n uint64) {
	for i, count := range h.Buckets {
		if i <= last {
			n += count
		}
	}
	return n
}

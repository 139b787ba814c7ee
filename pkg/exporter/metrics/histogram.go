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
	// schema is that of report.Histogram: 2^schema native buckets for each power of two.
	schema = 3
	// zeroThreshold is that of Prometheus's own histograms. Every duration is greater.
	zeroThreshold = 0x1p-128

	// The classic buckets end at powers of two: from about a millisecond to more than
	// any request takes.
	firstClassic = -10
	lastClassic  = 6
)

// histogram is a metric with native and with classic buckets. The scraper selects the
// kind that it supports.
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

// Write implements prometheus.Metric. It computes the total count from the buckets, so
// that both kinds add up.
func (h histogram) Write(out *dto.Metric) error {
	native, classic, count := make(map[int]int64), make(map[float64]uint64), uint64(0)
	for i, n := range h.counts.Buckets {
		native[i] = int64(n) //nolint:gosec // far below 2^63
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
	out.Histogram.CreatedTimestamp = nil // unknown
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

// cumulativeCount sums the native buckets up to last.
func cumulativeCount(h report.Histogram, last int) (n uint64) {
	for i, count := range h.Buckets {
		if i <= last {
			n += count
		}
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// prefix is the prefix of every metric name.
const prefix = "http01_proxy_"

// NewCollector returns a collector of the metrics of a report.
func NewCollector(r report.Report) prometheus.Collector { return collector{r} }

type collector struct{ report report.Report }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, f := range newMetricSet(c.report) {
		f.collect(out)
	}
	out <- durationHistogram(c.report.Traffic.Durations)
}

// ContentType is the media type of the text.
const ContentType = string(expfmt.FmtText)

// WriteText writes the metrics of a report in Prometheus's text format.
func WriteText(w io.Writer, r report.Report) error {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(NewCollector(r)); err != nil {
		return fmt.Errorf("collect the metrics: %w", err)
	}
	all, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("collect the metrics: %w", err)
	}
	for _, one := range all {
		if _, err := expfmt.MetricFamilyToText(w, one); err != nil {
			return fmt.Errorf("write the metrics: %w", err)
		}
	}
	return nil
}

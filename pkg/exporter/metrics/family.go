// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// family is one metric with all its series. A series that is set twice occurs once:
// two series with the same labels would fail the whole scrape.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	series     []series
}

type series struct {
	labels []string
	value  float64
}

func gauge(name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: prometheus.GaugeValue, labels: labels}
}

func counter(name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: prometheus.CounterValue, labels: labels}
}

// seriesFor returns the series with these labels, and creates it if necessary.
func (f *family) seriesFor(labels []string) *series {
	for i, text := range labels {
		labels[i] = strings.ToValidUTF8(text, "\uFFFD")
	}
	for i := range f.series {
		if slices.Equal(f.series[i].labels, labels) {
			return &f.series[i]
		}
	}
	f.series = append(f.series, series{labels: labels})
	return &f.series[len(f.series)-1]
}

func (f *family) set(value float64, labels ...string) { f.seriesFor(labels).value = value }

func (f *family) add(value float64, labels ...string) { f.seriesFor(labels).value += value }

func (f *family) collect(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc(f.name, f.help, f.labels, nil)
	for _, s := range f.series {
		out <- prometheus.MustNewConstMetric(desc, f.kind, s.value, s.labels...)
	}
}

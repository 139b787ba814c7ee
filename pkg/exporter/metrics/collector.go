// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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
	for _, f := range families(c.report) {
		f.collect(out)
	}
	out <- durationHistogram(c.report.Traffic.Durations)
}

func gather(r report.Report) ([]*dto.MetricFamily, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(NewCollector(r)); err != nil {
		return nil, fmt.Errorf("collect the metrics: %w", err)
	}
	all, err := registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("collect the metrics: %w", err)
	}
	return all, nil
}

// WriteText writes the metrics of a report in Prometheus's text format.
func WriteText(w io.Writer, r report.Report) error {
	all, err := gather(r)
	if err != nil {
		return err
	}
	for _, one := range all {
		if _, err := expfmt.MetricFamilyToText(w, one); err != nil {
			return fmt.Errorf("write the metrics: %w", err)
		}
	}
	return nil
}

// Page holds the metrics of one report. It renders each format once, and is safe for
// concurrent use.
type Page struct {
	families []*dto.MetricFamily

	mu    sync.Mutex
	texts map[expfmt.Format][]byte // of the formats that expfmt negotiates
}

// NewPage collects the metrics of a report.
func NewPage(r report.Report) (*Page, error) {
	families, err := gather(r)
	if err != nil {
		return nil, err
	}
	return &Page{families: families, texts: make(map[expfmt.Format][]byte)}, nil
}

// Render returns the page in the best format that the request's Accept field allows, and
// its Content-Type. The caller must not modify the text.
func (p *Page) Render(request map[string][]string) (contentType string, text []byte, err error) {
	format := expfmt.NegotiateAccept(request, expfmt.DefaultAcceptedFormats()...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, is := p.texts[format]; is {
		return string(format), text, nil
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	for _, f := range p.families {
		if err := encoder.Encode(f); err != nil {
			return "", nil, fmt.Errorf("write the metrics: %w", err)
		}
	}
	p.texts[format] = out.Bytes()
	return string(format), out.Bytes(), nil
}

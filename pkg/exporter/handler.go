// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/http01-proxyd/http01-proxyd/pkg/metrics"
)

// handler answers a scrape, and nothing else.
type handler struct{ source *source }

// ServeHTTP implements http.Handler. A scraper that accepts protobuf gets native
// histograms too. Nothing is compressed: a scrape is a few kilobytes, for which a
// compressor would take a megabyte of memory.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	report, err := h.source.report(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(report))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
}

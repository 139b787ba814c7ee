// SPDX-License-Identifier: Apache-2.0

package exporter

import "net/http"

// handler answers scrapes of /metrics.
type handler struct{ source *reportSource }

// ServeHTTP implements http.Handler. A scraper that accepts protobuf also gets native
// histograms. Nothing is compressed: a scrape has a few kilobytes, and a compressor takes
// a megabyte of memory.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	page, err := h.source.page(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	format, text, err := page.Render(r.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", format)
	_, _ = w.Write(text) //nolint:gosec // the negotiated format is one of a fixed set without HTML
}

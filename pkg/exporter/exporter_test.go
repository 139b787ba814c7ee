// SPDX-License-Identifier: Apache-2.0

package exporter_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// testController is the parent's end of an exporter's connection.
type testController struct {
	conn     *wire.Parent
	url      string
	requests atomic.Int64
	done     chan error // what Run returns
}

// startExporter runs an exporter in this process. respond returns the report for a
// request, or nil for no response.
func startExporter(t *testing.T, respond func() *report.Report) *testController {
	t.Helper()
	return startExporterWith(t, exporter.Run, respond)
}

// startExporterWith is startExporter with another run function.
func startExporterWith(t *testing.T, run func(context.Context, *wire.Child) error, respond func() *report.Report) *testController {
	t.Helper()
	parent, files, err := wire.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.NewChild(files)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	c := &testController{conn: parent, url: "http://" + ln.Addr().String() + "/metrics", done: make(chan error, 1)}
	if err := parent.Send(protocol.Command{Serve: &protocol.Serve{}}, int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	_, _ = file.Close(), ln.Close()
	go c.serve(respond)
	go func() { c.done <- run(t.Context(), conn) }()
	t.Cleanup(func() { _ = parent.Close() })
	return c
}

func (c *testController) serve(respond func() *report.Report) {
	for {
		var e protocol.Event
		if err := c.conn.Receive(&e); err != nil {
			return
		}
		if e.Request == nil {
			continue
		}
		c.requests.Add(1)
		if r := respond(); r != nil {
			_ = c.conn.Send(protocol.Command{Report: &protocol.Report{ID: e.Request.ID, Report: *r}}, -1)
		}
	}
}

func (c *testController) scrape(t *testing.T, accept string) (code int, header http.Header, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil, nil
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, resp.Header, body
}

// TestPageIsRenderedOnce: another scrape in the same format renders nothing.
func TestPageIsRenderedOnce(t *testing.T) {
	t.Parallel()
	page, err := metrics.NewPage(*busyReport())
	if err != nil {
		t.Fatal(err)
	}
	plain, protobuf := http.Header{}, http.Header{"Accept": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}}
	formats := map[string]*byte{}
	for range 2 {
		for _, accept := range []http.Header{plain, protobuf} {
			format, text, err := page.Render(accept)
			if err != nil || len(text) == 0 {
				t.Fatal(err)
			}
			if before := formats[format]; before != nil && before != &text[0] {
				t.Errorf("%s was rendered twice", format)
			}
			formats[format] = &text[0]
		}
	}
	if len(formats) != 2 {
		t.Errorf("formats %v", formats)
	}
}

func busyReport() *report.Report {
	r := &report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: report.Serving}}}
	r.Traffic.Durations.Add(report.BucketOf(time.Second), 3, 3*time.Second)
	return r
}

// TestReportIsRequestedOncePerSecond: concurrent scrapes, and scrapes within a second, get
// the same report.
func TestReportIsRequestedOncePerSecond(t *testing.T) {
	t.Parallel()
	c := startExporter(t, busyReport)
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 12 {
				if code, _, body := c.scrape(t, ""); code != http.StatusOK || !strings.Contains(string(body), "\nhttp01_proxy_up 1\n") {
					t.Errorf("%d\n%s", code, body)
				}
			}
		})
	}
	all.Wait()
	if requests, bound := c.requests.Load(), int64(time.Since(begin)/protocol.MaxReportAge)+1; requests > bound {
		t.Errorf("%d requests in %v", requests, time.Since(begin))
	}
}

// TestNativeHistograms: a scraper that accepts protobuf gets native and classic buckets.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	c := startExporter(t, busyReport)
	_, header, body := c.scrape(t, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	decoder := expfmt.NewDecoder(bytes.NewReader(body), expfmt.ResponseFormat(header))
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatalf("no histogram in %s: %v", header.Get("Content-Type"), err)
		}
		if family.GetName() != "http01_proxy_request_duration_seconds" {
			continue
		}
		h := family.GetMetric()[0].GetHistogram()
		if h.GetSchema() != 3 || len(h.GetPositiveSpan()) != 1 || len(h.GetBucket()) < 10 || h.GetSampleCount() != 3 {
			t.Errorf("%v", h)
		}
		return
	}
}

// TestSilentController: a scraper gets an error in time when the controller does not
// respond. A late response does not answer another request.
func TestSilentController(t *testing.T) {
	t.Parallel()
	var late atomic.Bool
	impatient := func(ctx context.Context, conn *wire.Child) error {
		return exporter.RunWithTimeout(ctx, conn, 100*time.Millisecond)
	}
	var c *testController
	c = startExporterWith(t, impatient, func() *report.Report {
		if !late.Load() {
			return nil
		}
		// The response to the request before arrives now.
		wrong := protocol.Report{ID: uint64(c.requests.Load() - 1), Report: report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: report.Disabled}}}}
		if err := c.conn.Send(protocol.Command{Report: &wrong}, -1); err != nil {
			t.Error(err)
		}
		return busyReport()
	})
	if code, _, body := c.scrape(t, ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	late.Store(true)
	var code int
	var body []byte
	nstest.Poll(func() bool { // a response may take longer on a busy machine
		code, _, body = c.scrape(t, "")
		return code != http.StatusServiceUnavailable
	})
	if !strings.Contains(string(body), `http01_proxy_ready{reason="Serving"} 1`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestExporterEndsWithController(t *testing.T) {
	t.Parallel()
	c := startExporter(t, busyReport)
	c.scrape(t, "")
	_ = c.conn.Close()
	select {
	case err := <-c.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the exporter runs without a controller")
	}
}

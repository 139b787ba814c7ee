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
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// testController is the other side of an exporter's connection.
type testController struct {
	conn     *protocol.Conn
	url      string
	requests atomic.Int64
	done     chan error // what Run returns
}

// startExporter runs an exporter, in this process. answer is what the keeper says to a
// question; nil says nothing.
func startExporter(t *testing.T, answer func() *report.Report) *testController {
	t.Helper()
	return startExporterWith(t, exporter.Run, answer)
}

// startExporterWith is start of another run.
func startExporterWith(t *testing.T, run func(context.Context, *protocol.Conn) error, answer func() *report.Report) *testController {
	t.Helper()
	near, far, err := protocol.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := protocol.FromFiles(far)
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
	k := &testController{conn: near, url: "http://" + ln.Addr().String() + "/metrics", done: make(chan error, 1)}
	if err := near.Send(protocol.ExporterCommand{Serve: &protocol.Serve{}}, int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	_, _ = file.Close(), ln.Close()
	go k.serve(answer)
	go func() { k.done <- run(t.Context(), conn) }()
	t.Cleanup(func() { _ = near.Close() })
	return k
}

func (k *testController) serve(answer func() *report.Report) {
	for {
		var ask protocol.ReportRequest
		if _, err := k.conn.Receive(&ask); err != nil {
			return
		}
		if ask.ID == protocol.ReadyID {
			continue
		}
		k.requests.Add(1)
		if r := answer(); r != nil {
			_ = k.conn.Send(protocol.ExporterCommand{Report: &protocol.ReportResponse{ID: ask.ID, Report: *r}}, -1)
		}
	}
}

func (k *testController) scrape(t *testing.T, accept string) (code int, header http.Header, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.url, nil)
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

// The text is rendered once in each format: a scraper more takes no work more.
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

// Who scrapes at the same time, or within a second, gets the same report. There are
// fewer scrapers than the exporter has places: on a busy machine it ends the
// connections of others before their requests come.
func TestReportIsRequestedOncePerSecond(t *testing.T) {
	t.Parallel()
	k := startExporter(t, busyReport)
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 12 {
				if code, _, body := k.scrape(t, ""); code != http.StatusOK || !strings.Contains(string(body), "\nhttp01_proxy_up 1\n") {
					t.Errorf("%d\n%s", code, body)
				}
			}
		})
	}
	all.Wait()
	if asked, bound := k.requests.Load(), int64(time.Since(begin)/protocol.MaxReportAge)+1; asked > bound {
		t.Errorf("the keeper was asked %d times in %v", asked, time.Since(begin))
	}
}

// A scraper that takes protobuf gets native buckets, and the classic ones too.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	k := startExporter(t, busyReport)
	_, header, body := k.scrape(t, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
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

// A keeper that does not answer is not there for a scraper, which is told so in
// time; one that answers too late answers no other question.
func TestSilentController(t *testing.T) {
	t.Parallel()
	var late atomic.Bool
	impatient := func(ctx context.Context, conn *protocol.Conn) error {
		return exporter.RunWithTimeout(ctx, conn, 100*time.Millisecond)
	}
	var k *testController
	k = startExporterWith(t, impatient, func() *report.Report {
		if !late.Load() {
			return nil
		}
		// The answer to the question before comes now.
		wrong := protocol.ReportResponse{ID: uint64(k.requests.Load() - 1), Report: report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: report.Disabled}}}}
		if err := k.conn.Send(protocol.ExporterCommand{Report: &wrong}, -1); err != nil {
			t.Error(err)
		}
		return busyReport()
	})
	if code, _, body := k.scrape(t, ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	late.Store(true)
	var code int
	var body []byte
	nstest.Poll(func() bool { // on a busy machine an answer may take longer
		code, _, body = k.scrape(t, "")
		return code != http.StatusServiceUnavailable
	})
	if !strings.Contains(string(body), `http01_proxy_ready{reason="Serving"} 1`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestExporterEndsWithController(t *testing.T) {
	t.Parallel()
	k := startExporter(t, busyReport)
	k.scrape(t, "")
	_ = k.conn.Close()
	select {
	case err := <-k.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the exporter goes on without a keeper")
	}
}

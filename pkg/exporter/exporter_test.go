// SPDX-License-Identifier: Apache-2.0

package exporter_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
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
func startExporter(t *testing.T, timeout time.Duration, respond func() *report.Report) *testController {
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
	go func() { c.done <- exporter.RunWithTimeout(t.Context(), conn, timeout) }()
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
			_ = c.conn.Send(protocol.Command{Report: r}, -1)
		}
	}
}

func (c *testController) scrape(t *testing.T) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusOK &&
		!strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("the metrics are of type %s", kind)
	}
	return resp.StatusCode, string(text)
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
	c := startExporter(t, time.Minute, busyReport)
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 12 {
				if code, body := c.scrape(t); code != http.StatusOK || !strings.Contains(body, "\nhttp01_proxy_up 1\n") {
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

// TestSilentController: a scraper gets an error in time when the controller does not
// respond. A response that comes after that is not for a later request.
func TestSilentController(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	silent.Store(true)
	c := startExporter(t, 100*time.Millisecond, func() *report.Report {
		if silent.Load() {
			return nil
		}
		return busyReport()
	})
	if code, body := c.scrape(t); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	late := &report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: report.Disabled}}}
	if err := c.conn.Send(protocol.Command{Report: late}, -1); err != nil {
		t.Error(err)
	}
	if code, _ := c.scrape(t); code == http.StatusOK { // it came during this scrape
		<-time.After(protocol.MaxReportAge)
	}
	silent.Store(false)
	var body string
	nstest.Poll(func() bool { // a response may take longer on a busy machine
		var code int
		code, body = c.scrape(t)
		return code != http.StatusServiceUnavailable
	})
	if !strings.Contains(body, `http01_proxy_ready{reason="Serving"} 1`) {
		t.Error(body)
	}
}

func TestExporterEndsWithController(t *testing.T) {
	t.Parallel()
	c := startExporter(t, time.Minute, busyReport)
	c.scrape(t)
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

// TestSilentConnectionIsClosed: silent connections that occupy every slot end within the
// timeout for the head, and a scrape is answered then.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	c := startExporter(t, time.Minute, busyReport)
	address := strings.TrimSuffix(strings.TrimPrefix(c.url, "http://"), "/metrics")
	silent := make([]net.Conn, 16)
	for i := range silent {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent[i] = conn
	}
	if code, body := c.scrape(t); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	for _, conn := range silent {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the silent connection reads %v, want EOF", err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	withMetrics = explicit + "metrics: {listenAddress: \":9645\"}\n"
	metricsURL  = "http://127.0.0.1:9645/metrics"

	// shortExporterBackoff makes the service start the next exporter sooner.
	shortExporterBackoff = serviceTiming + `={"ExporterBackoff": 50000000}`
)

// fetch fetches a page once, on a connection of its own.
func fetch(t testing.TB, method, url string) (code int, body string, err error) {
	t.Helper()
	return fetchWithin(t, nstest.Timeout, method, url)
}

func fetchWithin(t testing.TB, timeout time.Duration, method, url string) (code int, body string, err error) {
	t.Helper()
	client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// awaitMetric waits until the metrics have a line.
func (s *service) awaitMetric(line string) {
	s.t.Helper()
	var body string
	var err error
	if !nstest.Poll(func() bool {
		_, body, err = fetch(s.t, http.MethodGet, metricsURL)
		return err == nil && strings.Contains("\n"+body, "\n"+line+"\n")
	}) {
		s.t.Fatalf("the metrics lack %q: %v\n%s", line, err, body)
	}
}

// startWithMetrics starts the service with a VIP, an ingress that answers, and metrics.
func startWithMetrics(t *testing.T, env ...string) *service {
	t.Helper()
	s := startService(t, writeKey, withMetrics, env...)
	s.awaitReason(report.Serving)
	return s
}

// Only one page is served, and not on port 80 of the VIP.
func TestOnlyMetricsAreServed(t *testing.T) {
	s := startWithMetrics(t)
	s.awaitMetric("http01_proxy_up 1")
	for _, tt := range []struct {
		method, url string
		code        int
	}{
		{http.MethodGet, "http://127.0.0.1:9645/", 404},
		{http.MethodGet, "http://127.0.0.1:9645/metrics/", 404},
		{http.MethodGet, "http://127.0.0.1:9645//metrics", 404},
		{http.MethodGet, "http://127.0.0.1:9645/debug/pprof/", 404},
		{http.MethodPost, metricsURL, 404},
		{http.MethodHead, metricsURL, 404},
		{http.MethodOptions, "http://127.0.0.1:9645/*", 404},
		{http.MethodGet, "http://" + vip + ":9645/metrics?x=y", 200},
		{http.MethodGet, "http://" + vip + "/metrics", 400},
		{http.MethodGet, "http://" + vip + "/.well-known/acme-challenge/../../metrics", 400},
	} {
		code, body, err := fetch(t, tt.method, tt.url)
		if code != tt.code || err != nil {
			t.Errorf("%s %s: %d %v, want %d", tt.method, tt.url, code, err, tt.code)
		}
		if has := strings.Contains(body, "http01_proxy_up"); has != (tt.code == 200) {
			t.Errorf("%s %s has metrics: %t", tt.method, tt.url, has)
		}
	}
	conn, err := net.DialTimeout("tcp", "127.0.0.1:9645", nstest.Timeout)
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(nstest.Timeout))
	fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("a", 20<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("20 KiB of fields: %d", resp.StatusCode)
	}
	s.stop()
}

const metricsRequest = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

// scrapeTimeout is Prometheus's default. During the flood of TestScrapesDuringFlood, a scrape takes
// up to 0.6 s, or 1.5 s on two processors with a load of 30.
const scrapeTimeout = 10 * time.Second

// TestScrapesDuringFlood: 1,200 clients that connect, send a part of a request and wait, and
// connect again when they are closed, do not hold up a scrape.
func TestScrapesDuringFlood(t *testing.T) {
	s := startWithMetrics(t)
	s.awaitMetric("http01_proxy_up 1")
	one := func(int) net.IP { return net.IPv4(127, 0, 0, 1) } // the scraper's address too
	many := func(i int) net.IP { return net.IPv4(127, 0, 1+byte(i%3), 1+byte(i/3%100)) }
	for name, tt := range map[string]struct {
		sends  string
		source func(i int) net.IP
	}{
		"silent":                      {"", one},
		"one byte":                    {"G", one},
		"one byte, 300 addresses":     {"G", many},
		"no reader":                   {metricsRequest, many},
		"a body that does not follow": {"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", many},
		"a body on another path":      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", many},
	} {
		t.Run(name, func(t *testing.T) {
			stop := floodMetrics(t, tt.sends, tt.source)
			defer stop()
			const scrapes = 4
			succeeded := 0
			for range scrapes {
				<-time.After(100 * time.Millisecond) // closed clients connect again after 200 to 380 ms
				begin := time.Now()
				code, body, err := fetchWithin(t, scrapeTimeout, http.MethodGet, metricsURL)
				t.Logf("a scrape took %v: %d, %v", time.Since(begin), code, err)
				if code == http.StatusOK && err == nil && strings.Contains(body, "http01_proxy_up 1") {
					succeeded++
				}
			}
			// On a machine without free processors, a request can come late, after minTime.
			if succeeded < scrapes-1 {
				t.Errorf("%d of %d scrapes have succeeded", succeeded, scrapes)
			}
		})
	}
	s.stop()
}

// floodMetrics opens 1,200 connections to the exporter, and returns when all were opened once.
func floodMetrics(t *testing.T, sends string, source func(i int) net.IP) (stop func()) {
	t.Helper()
	const clients = 1200
	ctx, cancel := context.WithCancel(t.Context())
	var all, opened sync.WaitGroup
	opened.Add(clients)
	for i := range clients {
		all.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: source(i)}, Control: sockopt.BufferSizes(1)}
			once := sync.OnceFunc(opened.Done)
			defer once()
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:9645")
				if err == nil {
					_, _ = io.WriteString(conn, sends)
					once()
					end := context.AfterFunc(ctx, func() { _ = conn.Close() })
					if sends == metricsRequest {
						await(ctx, time.Second) // before it reads
					}
					_, _ = io.Copy(io.Discard, conn)
					end()
					_ = conn.Close()
				}
				await(ctx, time.Duration(200+i%10*20)*time.Millisecond)
			}
		})
	}
	opened.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

func await(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// The process that reads from scrapers has no privilege on the host, and the controller has
// no socket there.
func TestExporterIsUnprivileged(t *testing.T) {
	s := startWithMetrics(t)
	s.awaitMetric("http01_proxy_up 1")
	pid := s.childPID("exporter")
	checkUnprivileged(t, pid)
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || strings.Contains(string(env),
		"NOTIFY_SOCKET") || !strings.Contains(string(env), "GOMEMLIMIT=32MiB\x00") {
		t.Errorf("the exporter's environment: %q, %v", env, err)
	}
	listeners := nstest.Run(t, "ss", "-Hltnp", "sport = :9645")
	if strings.Count(listeners, "pid=") != 1 || !strings.Contains(listeners, fmt.Sprintf("pid=%d,", pid)) {
		t.Errorf("the listeners, want process %d alone:\n%s", pid, listeners)
	}
	s.stop()
}

// TestExporterExits kills the exporter process three times. The service starts another, and
// keeps its condition.
func TestExporterExits(t *testing.T) {
	s := startWithMetrics(t, shortExporterBackoff)
	s.awaitMetric("http01_proxy_up 1")
	s.awaitLog("metrics are served on ")
	before := s.awaitReason(report.Serving).Condition()
	old := 0
	for range 3 {
		if !nstest.Poll(func() bool { pid := s.childPID("exporter"); return pid != 0 && pid != old }) {
			t.Fatal("no other exporter")
		}
		s.awaitMetric("http01_proxy_up 1")
		old = s.childPID("exporter")
		must(t, syscall.Kill(old, syscall.SIGKILL))
	}
	s.awaitMetric("http01_proxy_up 1")
	s.awaitLog("the exporter process has exited (signal: killed)")
	if after := s.awaitReason(report.Serving).Condition(); after != before {
		t.Errorf("the condition is %+v, was %+v", after, before)
	}
	s.stop()
}

// The address and whether metrics are served follow the configuration without a restart.
func TestMetricsFollowTheConfiguration(t *testing.T) {
	s := startService(t, writeKey, explicit)
	s.awaitReason(report.Serving)
	off := func(r report.Report) bool { return r.Metrics == report.Metrics{} }
	s.await("metrics that are off", off)
	if s.childPID("exporter") != 0 {
		t.Error("an exporter process runs without a configured address")
	}
	s.configure(withMetrics)
	s.awaitMetric(`http01_proxy_reloads_total{result="accepted"} 1`)
	s.configure(explicit + "metrics: {listenAddress: 127.0.0.2:9646}\n")
	if !nstest.Poll(func() bool {
		code, _, err := fetch(t, http.MethodGet, "http://127.0.0.2:9646/metrics")
		return err == nil && code == http.StatusOK
	}) {
		t.Error("no metrics at the new address")
	}
	for _, url := range []string{metricsURL, "http://127.0.0.1:9646/metrics"} {
		if _, _, err := fetch(t, http.MethodGet, url); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", url, err)
		}
	}
	s.configure(explicit)
	if !nstest.Poll(func() bool {
		_, _, err := fetch(t, http.MethodGet, "http://127.0.0.2:9646/metrics")
		return errors.Is(err, syscall.ECONNREFUSED) && s.childPID("exporter") == 0
	}) {
		t.Error("metrics are served although they are off")
	}
	s.await("metrics that are off again", off)
	checkAnswered(t, "without metrics")
	s.stop()
}

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
)

// floodRates returns rates in connections a second. A busy machine may not support the
// first.
func floodRates() []int { return []int{5_000, 2_500, 1_250} }

// TestFlood opens 50,000 concurrent connections from more than 500 sources, some with slow
// request heads, while CAs request challenges. No CA loses a request, whether it has its
// own addresses or shares one with the flood. The service is built without the race
// detector, which multiplies memory and time.
func TestFlood(t *testing.T) {
	l, _ := cluster(t)
	binary, err := Binary(t.Context(), os.Getenv("HTTP01_PROXYD"))
	must(t, err)
	s := start(t, l.ControlPlane[0].Node, ServiceOptions{Binary: binary, Wrap: UnitLimits(), Env: UnitEnvironment()})
	var report FloodReport
	for _, rate := range floodRates() {
		var err error
		report, err = l.Flood(t.Context(), s, FloodOptions{Connections: 50_000, PerSecond: rate, For: 8 * time.Second})
		must(t, err)
		t.Logf("%d a second:\n%s", rate, report)
		if report.Honest.Lost+report.Shared.Lost == 0 {
			break
		}
	}
	if h := report.HostileTotal(); h.Peak < 50_000 || h.Reset == 0 {
		t.Errorf("the flood was too small: %+v", h)
	}
	if report.Rejected["evicted"] == 0 { // Flood has awaited the other bound
		t.Errorf("refused: %v", report.Rejected)
	}
	if h := report.Honest; h.Requests == 0 || h.Lost > 0 {
		t.Errorf("honest requests from other addresses: %+v", h)
	}
	if h := report.Shared; h.Requests == 0 || h.Lost > 0 {
		t.Errorf("honest requests from addresses that flood: %+v", h)
	}
	log, err := os.ReadFile(s.Log)
	must(t, err)
	if text := string(log); strings.Contains(text, "event=proxy\n") || strings.Contains(text, "reason=ProxyUnavailable") {
		t.Errorf("a healthy proxy failed the controller's requests:\n%s", text)
	}
	if report.Peak.Descriptors > 16384 {
		t.Errorf("at the peak %s", report.Peak)
	}
	if limit := 256 << 20; report.Peak.RSS > limit {
		t.Errorf("at the peak %s, of %d MiB", report.Peak, limit>>20)
	}
}

// TestSlowFlood holds that a working proxy process is not replaced while all of its slots wait for
// a route that never responds: 40 sources send 8,480 challenges at once, and again when they end.
func TestSlowFlood(t *testing.T) {
	const slots, sources, perSource = 4096, 40, 212 // of limits.maxConnections; below limits.perSource
	l, _ := cluster(t)
	binary, err := Binary(t.Context(), os.Getenv("HTTP01_PROXYD"))
	must(t, err)
	must(t, l.routeFlood(t.Context()))
	router, err := l.Routers[0].Listen(t.Context(), ":81")
	must(t, err)
	var waiting atomic.Int64 // requests at the route, with those that ended
	go func() {
		for {
			conn, err := router.Accept()
			if err != nil {
				return
			}
			waiting.Add(1)
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	defer func() { _ = router.Close() }()
	master, host := l.ControlPlane[0].Node, "slow."+l.Domain
	s := start(t, master, ServiceOptions{
		Binary: binary, Wrap: UnitLimits(), Env: UnitEnvironment(),
		Config: master.DefaultConfig() + "upstream: {port: 81, connectTimeout: 8s}\nhosts: [" + host + "]\n",
	})
	awaitReason(t, s, "Serving")
	before := proxyPIDs(s)
	attack := flood.Hostile{
		Sources: []flood.Range{{First: netip.MustParseAddr("198.18.0.0"), Count: sources}}, Server4: l.web4(),
		Connections: sources * perSource, PerSecond: 5_000,
		Request: "GET " + acmePrefix + "slow HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
	}
	hostile, err := l.floodClients([]string{attack.Environment()})
	must(t, err)
	defer func() { must(t, killRemaining(hostile)) }()
	must(t, awaitFlood(t.Context(), hostile[0], "started", func(flood.HostileReport) bool { return true }))
	must(t, lowerPriority(hostile[0]))
	must(t, hostile[0].Signal(flood.Begin))
	must(t, Within(t.Context(), floodTimeout, "requests in all slots", func(context.Context) error {
		if n := waiting.Load(); n < slots {
			return fmt.Errorf("%d requests wait for the route", n)
		}
		return hostile[0].Alive()
	}))
	must(t, sleepContext(t.Context(), 20*time.Second)) // the flood; 12 s suffice to replace a process
	if after := proxyPIDs(s); len(before) != 1 || !slices.Equal(after, before) {
		t.Errorf("proxy process %v before the flood, %v now", before, after)
	}
	report, err := endClient[flood.HostileReport](t.Context(), hostile[0])
	must(t, err)
	t.Logf("%d requests at the route, clients: %+v", waiting.Load(), report)
	log, err := os.ReadFile(s.Log)
	must(t, err)
	if text := string(log); strings.Contains(text, "event=proxy\n") || strings.Contains(text, "reason=ProxyUnavailable") {
		t.Errorf("a working proxy failed the controller's requests:\n%s", text)
	}
	awaitReason(t, s, "Serving")
}

// proxyPIDs returns the proxy process of a service. Other children come and go.
func proxyPIDs(s *Service) []int {
	return slices.DeleteFunc(Children(s.PID()), func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.HasSuffix(string(text), "\x00proxy\x00")
	})
}

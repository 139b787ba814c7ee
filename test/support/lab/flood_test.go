// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"strings"
	"testing"
	"time"
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

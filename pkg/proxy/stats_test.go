// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestTestRequestsAreBounded: sources beyond the bound are counted together, and this host not
// at all.
func TestTestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	c, vip := newStatsCollector(), netip.MustParseAddr("2001:db8::5")
	c.RecordTestRequest(vip, vip)
	source := netip.MustParseAddr("2001:db8::1:0%lan0")
	for range report.MaxTestSources + 4 {
		source = source.Next()
		c.RecordTestRequest(source, vip)
		c.RecordTestRequest(source, vip)
	}
	for range 2 {
		var sent protocol.Stats
		c.flush(func(s *protocol.Stats) { sent = *s })
		if err := sent.Validate(); err != nil {
			t.Error(err)
		}
		counts := map[netip.Addr]uint64{}
		for _, r := range sent.TestRequests {
			counts[r.Address] = r.Count
		}
		if len(counts) == 0 { // the second time
			return
		}
		if len(counts) != report.MaxTestSources+1 || counts[netip.Addr{}] != 8 ||
			counts[netip.MustParseAddr("2001:db8::1:1")] != 2 || counts[vip] != 0 {
			t.Errorf("%v", counts)
		}
	}
	t.Error("the second report repeats the first")
}

// TestFloodHidesNoChallenge: a report has the challenges of a quiet client beside a flood of others,
// also of one with the same address for another host.
func TestFloodHidesNoChallenge(t *testing.T) {
	t.Parallel()
	const api, app, certManager = "api.example.com", "app.example.com", "192.0.2.10"
	for name, flood := range map[string]func(i int) (host, client string){
		"one client":       func(int) (string, string) { return api, "203.0.113.9" },
		"some clients":     func(i int) (string, string) { return api, fmt.Sprintf("203.0.113.%d", i%20) },
		"one IPv6 network": func(i int) (string, string) { return api, fmt.Sprintf("2001:db8::%x", i) },
		"the same address": func(int) (string, string) { return app, certManager },
		"many hosts":       func(i int) (string, string) { return fmt.Sprintf("h%d.example.com", i), "203.0.113.9" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStatsCollector()
			record := func(host, client string) {
				c.RecordChallenge(report.Challenge{
					Method: "GET", Host: host, Status: 404, ClientKind: report.OtherClient,
					Client: netip.AddrPortFrom(netip.MustParseAddr(client), 1234),
				}, nil)
			}
			for i := range 5000 {
				record(flood(i))
				if i == 1000 {
					record(api, certManager)
				}
			}
			var sent protocol.Stats
			c.flush(func(s *protocol.Stats) { sent = *s })
			found, sum := 0, uint64(0)
			for i := range sent.Challenges {
				if sent.Challenges[i].Host == api && sent.Challenges[i].Client.Addr().String() == certManager {
					found++
				}
			}
			for i := range sent.Sums {
				sum += sent.Sums[i].Count
			}
			if found != 1 || len(sent.Challenges) != protocol.MaxChallenges || sum != 5001 {
				t.Errorf("%d of %d reported challenges are of the quiet client, %d are counted", found, len(sent.Challenges), sum)
			}
		})
	}
}

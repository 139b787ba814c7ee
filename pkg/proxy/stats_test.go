// SPDX-License-Identifier: Apache-2.0

package proxy

import (
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

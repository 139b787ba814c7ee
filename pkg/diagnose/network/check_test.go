// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// TestCheckHoldersWithBGP: several hosts may hold a VIP, and hosts behind a router are not known.
func TestCheckHoldersWithBGP(t *testing.T) {
	t.Parallel()
	vip, router := netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("192.0.2.1")
	for name, tt := range map[string]struct {
		holders Holders
		outcome result.Outcome
		text    string
		finding findings.ID
	}{
		"on this host":                {Holders{Local: true}, result.OK, "on this host, announced by BGP", ""},
		"on this host and on others":  {Holders{Local: true, OthersKnown: true, OtherMACs: []string{"a", "b"}}, result.OK, "announced by BGP", ""},
		"behind a router":             {Holders{Gateway: router}, result.Skipped, "203.0.113.5: not on this host, but behind the router 192.0.2.1: other hosts with BGP cannot be queried", ""},
		"on others in this network":   {Holders{OthersKnown: true, OtherMACs: []string{"a", "b"}}, result.OK, "from a and b", ""},
		"on no host in this network":  {Holders{OthersKnown: true, Link: "br-ex"}, result.Problem, "", findings.VIPUnassigned},
		"without a route of kube-vip": {Holders{Local: true, Unannounced: 198}, result.Problem, "", findings.VIPNotAnnounced},
		"on a link that is down":      {Holders{Local: true, LinkDown: true, Link: "br-ex"}, result.Problem, "", findings.VIPLinkDown},
		"not queried in this network": {Holders{Reason: "only root can"}, result.Skipped, "203.0.113.5: only root can", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.holders.Shared = true
			v := vips.VIPs{VIPs: keepalived.VIPs{API: []netip.Addr{vip}}, BGP: true}
			got := CheckHolders(v, map[netip.Addr]Holders{vip: tt.holders})
			var found findings.ID
			if len(got.Findings) > 0 {
				found = got.Findings[0].ID
			}
			if got.Outcome != tt.outcome || !strings.Contains(got.Text, tt.text) || found != tt.finding {
				t.Errorf("got %+v", got)
			}
		})
	}
}

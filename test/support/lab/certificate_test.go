// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestCertificate has a real CA validate a name with the API VIP over each family.
// test/suites/topology varies the client of the self check.
func TestCertificate(t *testing.T) {
	l, _ := cluster(t)
	services := startAll(t, l)
	tests := []struct {
		name string
		dns  Pair
		from *Node // of the self check
		over netip.Addr
	}{
		{"over IPv4 alone", Pair{V4: l.API.V4}, l.Pods[0], l.API.V4},
		{"over IPv6 alone", Pair{V6: l.API.V6}, l.Pods[0], l.API.V6},
		{"dual stack", l.API, l.Pods[1], l.API.V6},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := publishName(t, l, fmt.Sprintf("api-%d", i), tt.dns)
			before := status(t, services[0])
			orderCertificate(t, l, name, tt.from)
			seen := status(t, services[0])
			// Five passes of the self check and three of Pebble's validators.
			if got := seen.Challenges.Total - before.Challenges.Total; got < SelfCheckPasses+3 {
				t.Errorf("the service counted %d challenges", got)
			}
			last := seen.Challenges.Recent[len(seen.Challenges.Recent)-1]
			client, err := netip.ParseAddrPort(last.Client)
			must(t, err)
			if last.Status != 200 || last.Host != name || last.VIP != tt.over.String() ||
				last.Cause != "" || len(last.TokenPrefix) != 8 {
				t.Errorf("last challenge: %+v", last)
			}
			if family := l.Internet.Addresses.Like(tt.over); client.Addr() != family {
				t.Errorf("client %s, want %s", client.Addr(), family)
			}
			if family := l.Ingress.Like(tt.over); last.Upstream != web(family) {
				t.Errorf("upstream %s, want the ingress VIP of the client's family %s", last.Upstream, family)
			}
		})
	}
	for _, s := range services[1:] {
		seen := status(t, s)
		if seen.Challenges.Total != 0 {
			t.Errorf("%s is on standby and counted %d challenges", s.node.Name, seen.Challenges.Total)
		}
	}
}

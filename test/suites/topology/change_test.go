// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestVIPsChanged changes the API and ingress VIPs in keepalived.conf at run time.
func TestVIPsChanged(t *testing.T) {
	s := startServices(t, lab.Layout{})
	s.awaitPlacement()
	s.expectCertificates()
	old := s.API
	must(t, s.Renumber(
		lab.Pair{V4: netip.MustParseAddr("192.0.2.7"), V6: netip.MustParseAddr("fd4e:5f2a:9c01:1::7")},
		lab.Pair{V4: netip.MustParseAddr("192.0.2.8"), V6: netip.MustParseAddr("fd4e:5f2a:9c01:1::8")}))
	must(t, s.Internet.SetName(t.Context(), apiName, s.API))
	s.awaitPlacement()
	s.expectStates()
	s.expectCertificates()
	s.expectVIPForgotten(old)
	s.expectFindings()
}

// expectVIPForgotten expects that no control-plane node's status lists a removed VIP.
func (s *testbed) expectVIPForgotten(old lab.Pair) {
	s.t.Helper()
	for _, m := range s.ControlPlane {
		seen, err := s.services[m.Name].Status(s.t.Context())
		must(s.t, err)
		for _, vip := range old.Both() {
			if got := seen.VIPState(vip.String()); got != "" {
				s.t.Errorf("%s lists the old VIP %s as %s", m.Name, vip, got)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestOtherNATAfter loads nat chains after ours, one of which redirects every port 80.
// The first mapping wins.
func TestOtherNATAfter(t *testing.T) {
	s := startServices(t, lab.Layout{})
	holder := s.Preferred(s.API.V4)
	must(t, holder.LoadNodeRules(t.Context()))
	s.unload(holder, "ip ocp_nat", "ip6 ocp_nat", "inet another_nat", "inet admin")
	s.awaitPlacement()
	s.expectStates()
	s.expectCertificates()
	s.expectFindings()
}

// earlier is a nat table whose chains run before ours and map another port of the VIPs.
const earlier = `table inet earlier {
	chain prerouting {
		type nat hook prerouting priority -150;
		%[1]s
	}
	chain output {
		type nat hook output priority -150;
		%[1]s
	}
}
`

// TestOtherNATBefore loads a nat table before ours. It is harmless for other ports, and
// check reports it when it maps port 80 of the VIPs.
func TestOtherNATBefore(t *testing.T) {
	s := startServices(t, lab.Layout{})
	s.awaitPlacement()
	for _, m := range s.ControlPlane {
		s.load(m.Node, "tcp dport 6444 dnat to :6443")
	}
	s.expectStates()
	s.expectCertificates()
	s.expectFindings()
	holder := s.Preferred(s.API.V4)
	s.load(holder, fmt.Sprintf("ip daddr %s tcp dport 80 dnat to :9445", s.API.V4))
	s.expectFindings("master0 local-traffic-blocked", "master0 packet-not-redirected", "master1 proxy-unreachable",
		"master2 proxy-unreachable")
	_, err := holder.Run(t.Context(), "nft", "delete", "table", "inet", "earlier")
	must(t, err)
	s.expectCertificates()
}

// load loads the earlier table with one rule into a node, in place of another rule, until
// the test ends.
func (s *testbed) load(n *lab.Node, rule string) {
	s.t.Helper()
	_, err := n.Input(s.t.Context(), "table inet earlier\ndelete table inet earlier\n"+fmt.Sprintf(earlier, rule), "nft",
		"-f", "-")
	must(s.t, err)
	s.unload(n, "inet earlier")
}

// unload removes existing tables from a node when the test ends.
func (s *testbed) unload(n *lab.Node, tables ...string) {
	s.t.Cleanup(func() {
		for _, table := range tables {
			_, err := n.Input(context.Background(), "table "+table+"\ndelete table "+table+"\n", "nft", "-f", "-")
			must(s.t, err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestClients makes the self check from all kinds of clients: pods, which have their own
// network namespace, and clients in the host's network, each on the VIP holder and on
// another node.
func TestClients(t *testing.T) {
	s := startWithVIPs(t, lab.Layout{})
	holder := s.Preferred(s.API.V4)
	for _, from := range []*lab.Node{
		s.podOn(holder), s.podOnOtherControlPlaneNode(holder),
		holder, s.otherControlPlaneNode(holder), s.Worker.Node,
	} {
		s.certificate(lab.Pair{V4: s.API.V4}, from)
		s.certificate(lab.Pair{V6: s.API.V6}, from)
	}
	s.expectFindings()
}

// otherControlPlaneNode returns a different control-plane node.
func (s *testbed) otherControlPlaneNode(master *lab.Node) *lab.Node {
	i := slices.IndexFunc(s.ControlPlane, func(m *lab.ControlPlaneNode) bool { return m.Node != master })
	return s.ControlPlane[i].Node
}

// podOnOtherControlPlaneNode returns a pod on a different control-plane node.
func (s *testbed) podOnOtherControlPlaneNode(master *lab.Node) *lab.Node {
	return s.podOn(s.otherControlPlaneNode(master))
}

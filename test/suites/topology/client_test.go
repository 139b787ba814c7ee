// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestClients has the self check be made by all that may make it: pods, which
// have a network namespace of their own, and clients of the host's network, each
// on the VIP's own node and on another one.
func TestClients(t *testing.T) {
	s := startSettled(t, lab.Layout{})
	holder := s.Preferred(s.API.V4)
	for _, from := range []*lab.Node{
		s.podOn(holder), s.podOnOtherMaster(holder),
		holder, s.otherMaster(holder), s.Worker.Node,
	} {
		s.certificate(lab.Pair{V4: s.API.V4}, from)
		s.certificate(lab.Pair{V6: s.API.V6}, from)
	}
	s.expectFindings()
}

// otherMaster is a master that is not this one.
func (s *site) otherMaster(master *lab.Node) *lab.Node {
	i := slices.IndexFunc(s.Masters, func(m *lab.Master) bool { return m.Node != master })
	return s.Masters[i].Node
}

// podOnOtherMaster is a pod that lives on another master than this one.
func (s *site) podOnOtherMaster(master *lab.Node) *lab.Node { return s.podOn(s.otherMaster(master)) }

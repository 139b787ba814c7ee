// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// expectServing orders certificates in a topology over each family and both, and compares
// the states and the findings of check with its row.
func expectServing(t *testing.T, y lab.Layout) *testbed {
	t.Helper()
	s := startWithVIPs(t, y)
	s.expectCertificates()
	s.expectFindings()
	return s
}

// expectCertificates orders a certificate over each VIP, and one for a name with both
// families. The self check comes from a pod on the VIP holder, and for both families from
// one on another node.
func (s *testbed) expectCertificates() {
	s.t.Helper()
	for _, p := range s.pairs() {
		for _, one := range []lab.Pair{{V4: p.V4}, {V6: p.V6}} {
			if all := one.Both(); len(all) == 1 {
				s.certificate(one, s.podOn(s.Preferred(all[0])))
			}
		}
		if len(p.Both()) == 2 {
			s.certificate(p, s.podOnOtherControlPlaneNode(s.Preferred(p.V6)))
		}
	}
	s.expectRejection()
}

// podOn returns the pod on a control-plane node.
func (s *testbed) podOn(master *lab.Node) *lab.Node {
	for i, m := range s.ControlPlane {
		if m.Node == master {
			return s.Pods[i]
		}
	}
	s.t.Fatalf("no pod on %v", master)
	return nil
}

func TestStandard(t *testing.T) { expectServing(t, lab.Layout{}) }

func TestIPv4Only(t *testing.T) { expectServing(t, lab.Layout{Families: lab.IPv4Only}) }

func TestIPv6Only(t *testing.T) { expectServing(t, lab.Layout{Families: lab.IPv6Only}) }

func TestDualStackIPv6First(t *testing.T) {
	expectServing(t, lab.Layout{Families: lab.DualStackV6First})
}

func TestVIPsOnDifferentNodes(t *testing.T) { expectServing(t, lab.Layout{SplitFamilies: true}) }

func TestMulticast(t *testing.T) { expectServing(t, lab.Layout{Multicast: true}) }

func TestUseVMAC(t *testing.T) { expectServing(t, lab.Layout{VMAC: true}).expectLink(vmac, "macvlan") }

func TestBridge(t *testing.T) {
	expectServing(t, lab.Layout{Link: lab.LinkBridge}).expectLink(sameLink("br-ex"), "bridge")
}

func TestBond(t *testing.T) {
	onKernelWith(t, lab.LinkBond, func() {
		expectServing(t, lab.Layout{Link: lab.LinkBond}).expectLink(sameLink("bond0"), "bond")
	})
}

func TestVLAN(t *testing.T) {
	onKernelWith(t, lab.LinkVLAN, func() {
		expectServing(t, lab.Layout{Link: lab.LinkVLAN}).expectLink(sameLink("ens3.100"), "vlan")
	})
}

func TestSeveralVIPs(t *testing.T) { expectServing(t, lab.Layout{VIPs: 3}) }

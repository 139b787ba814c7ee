// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
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

func TestDualStackIPv4First(t *testing.T) {
	s := expectServing(t, lab.Layout{Families: lab.DualStack})
	s.expectVIPOrder(s.API.V4, s.API.V6)
	s.expectVIPOrder(s.Ingress.V4, s.Ingress.V6)
}

func TestDualStackIPv6First(t *testing.T) {
	s := expectServing(t, lab.Layout{Families: lab.DualStackV6First})
	s.expectVIPOrder(s.API.V6, s.API.V4)
	s.expectVIPOrder(s.Ingress.V6, s.Ingress.V4)
}

// expectVIPOrder expects VIPs in this order in every control-plane node's keepalived.conf.
func (s *testbed) expectVIPOrder(vips ...netip.Addr) {
	s.t.Helper()
	for _, m := range s.ControlPlane {
		text, err := os.ReadFile(m.KeepalivedConfig())
		must(s.t, err)
		last := -1
		for _, vip := range vips {
			at := strings.Index(string(text), fmt.Sprintf(" %s/%d ", vip, vip.BitLen()))
			if at <= last {
				s.t.Errorf("keepalived.conf of %s does not have %v in this order", m, vips)
			}
			last = at
		}
	}
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

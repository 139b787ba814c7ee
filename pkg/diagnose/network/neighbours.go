// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// neighbourProbe queries on a link which hosts answer for an address.
type neighbourProbe struct {
	prober  *prober.Client
	link    *net.Interface
	source  netip.Addr // source address for neighbour discovery
	ownMACs [][]byte   // the hardware addresses of this host
}

// newNeighbourProbe is the probe on the link of a path.
func newNeighbourProbe(client *prober.Client, w Path, addr netip.Addr, h Host) (neighbourProbe, error) {
	n := neighbourProbe{prober: client, link: w.Link}
	if addr.Is6() {
		// Not a VIP as source, because other hosts would learn its location.
		var known bool
		if n.source, known = h.linkLocalAddress(w.Link); !known {
			return n, fmt.Errorf("%s has no link-local address for neighbour discovery", w.Link.Name)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return n, fmt.Errorf("cannot list the links: %w", err)
	}
	for _, l := range links {
		if len(l.HardwareAddr) > 0 && (w.Local || !isVRRPMAC(l.HardwareAddr)) {
			n.ownMACs = append(n.ownMACs, l.HardwareAddr)
		}
	}
	return n, nil
}

// isVRRPMAC reports whether a hardware address is a virtual one of VRRP. With use_vmac,
// every host of the group has it on a link. If the VIP is not on this host, its holder
// answers with it.
func isVRRPMAC(hardware net.HardwareAddr) bool {
	return strings.HasPrefix(hardware.String(), vrrpPrefix4) || strings.HasPrefix(hardware.String(), vrrpPrefix6)
}

// queryMACs queries concurrently which other hosts answer for several addresses.
func (n neighbourProbe) queryMACs(ctx context.Context, addrs []netip.Addr) ([][]string, error) {
	answers, errs := make([][]string, len(addrs)), make([]error, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			found, err := n.prober.Neighbours(ctx, prober.NeighboursQuery{
				Addr: addr, LinkIndex: n.link.Index, LinkHardware: n.link.HardwareAddr, HostHardware: n.ownMACs, Source: n.source,
			})
			if errs[i] = err; err == nil {
				answers[i] = found.Hardware
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// vipMACs are the hardware addresses that answer for a VIP. A host that also answers
// for this host's own address answers for others (proxy ARP) and has neither.
func (n neighbourProbe) vipMACs(ctx context.Context, vip, own netip.Addr) ([]string, error) {
	addrs := []netip.Addr{vip}
	if own.IsValid() {
		addrs = append(addrs, own)
	}
	answers, err := n.queryMACs(ctx, addrs)
	if err != nil {
		return nil, err
	}
	return ignoreOtherFamilyMACs(vip, slices.DeleteFunc(answers[0], func(one string) bool {
		return len(answers) > 1 && slices.Contains(answers[1], one)
	})), nil
}

// The first five bytes of VRRP's virtual hardware addresses (RFC 9568 section 7.3), as
// text.
const (
	vrrpPrefix4 = "00:00:5e:00:01:"
	vrrpPrefix6 = "00:00:5e:00:02:"
)

// ignoreOtherFamilyMACs removes IPv6 VRRP addresses for an IPv4 VIP. A holder with
// use_vmac answers from that link too, because keepalived sets arp_ignore on the IPv4
// links only.
func ignoreOtherFamilyMACs(vip netip.Addr, answering []string) []string {
	starts := func(with string) func(string) bool {
		return func(one string) bool { return strings.HasPrefix(one, with) }
	}
	if vip.Is4() && slices.ContainsFunc(answering, starts(vrrpPrefix4)) {
		return slices.DeleteFunc(answering, starts(vrrpPrefix6))
	}
	return answering
}

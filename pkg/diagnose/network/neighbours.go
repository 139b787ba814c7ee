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

	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
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

// maxNeighbours bounds the addresses that are queried to distinguish hosts.
const maxNeighbours = 8

// relateMACs determines whether several hardware addresses belong to one host. With the
// kernel's default (arp_ignore=0), a host with two NICs in one network answers from
// both for any of its addresses. So it queries known addresses of these neighbours. For
// IPv6, only the link with the address answers.
func (n neighbourProbe) relateMACs(ctx context.Context, answering []string, vip netip.Addr, isVIP func(netip.Addr) bool) (macRelation, error) {
	if vip.Is6() {
		return differentHosts, nil
	}
	known, err := route.Neighbours(uint32(n.link.Index)) //nolint:gosec // a link index of the kernel
	if err != nil {
		return unknownRelation, err
	}
	var addrs []netip.Addr
	for _, each := range known {
		if each.IP.Is4() && !isVIP(each.IP) && slices.Contains(answering, each.HardwareAddr) && len(addrs) < maxNeighbours {
			addrs = append(addrs, each.IP)
		}
	}
	answers, err := n.queryMACs(ctx, addrs)
	if err != nil {
		return unknownRelation, err
	}
	return macsOnSameHost(answering, answers), nil
}

// macRelation is whether hardware addresses belong to one host.
type macRelation int

const (
	unknownRelation macRelation = iota
	sameHost
	differentHosts // at least two of them belong to different hosts
)

// macsOnSameHost relates hardware addresses by the answers for addresses of single
// hosts. Those that answer together belong to one host, and one that does not answer
// where another does belongs to another host.
func macsOnSameHost(all []string, answers [][]string) macRelation {
	group := make(map[string]int)
	for i, one := range all {
		group[one] = i
	}
	apart := false
	for _, together := range answers {
		together = slices.DeleteFunc(slices.Clone(together), func(one string) bool { return !slices.Contains(all, one) })
		if len(together) == 0 {
			continue // none of these addresses answered
		}
		apart = apart || len(together) < len(all)
		for _, one := range together[1:] {
			from, to := group[one], group[together[0]]
			for name, g := range group {
				if g == from {
					group[name] = to
				}
			}
		}
	}
	first := group[all[0]]
	single := !slices.ContainsFunc(all, func(one string) bool { return group[one] != first })
	switch {
	case single:
		return sameHost
	case apart:
		return differentHosts
	default:
		return unknownRelation
	}
}

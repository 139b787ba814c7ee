// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"cmp"
	"slices"
)

// maxArrivalLinks bounds the links of one address.
const maxArrivalLinks = 64

// loopbackIndex is the index of lo in every network namespace (LOOPBACK_IFINDEX of net/flow.h).
const loopbackIndex = 1

// openVSwitch is the kind of an internal port of Open vSwitch, such as br-ex of OpenShift. The
// master of all other ports is the internal port ovs-system, whatever their bridge, and no link is
// below an internal port (net/openvswitch/vport-netdev.c, vport-internal_dev.c).
const openVSwitch = "openvswitch"

// ArrivalLinks returns the link with an index and all links below it: packets are seen at each
// of them, and first at the lowest. For an internal port of Open vSwitch these are all uplinks
// of the host's datapaths. The kernels of the tests support bridge, veth and macvlan. The other
// kinds are tested with recorded facts. Packets for an address of lo or a dummy arrive by any
// uplink.
func ArrivalLinks(links []Link, index uint32) (found []Link) {
	for next := []uint32{index}; len(next) > 0 && len(found) < maxArrivalLinks; next = next[1:] {
		i := slices.IndexFunc(links, func(l Link) bool { return l.Index == next[0] })
		if i < 0 || slices.ContainsFunc(found, func(l Link) bool { return l.Index == next[0] }) {
			continue
		}
		found = append(found, links[i])
		for _, l := range links {
			if l.isBelow(links[i], links) {
				next = append(next, l.Index)
			}
		}
	}
	slices.SortFunc(found, func(a, b Link) int { return cmp.Compare(a.Index, b.Index) })
	return found
}

// isBelow reports whether packets that arrive at l can reach upper.
func (l Link) isBelow(upper Link, links []Link) bool {
	switch {
	case upper.Kind == openVSwitch:
		// Ports of pods and tunnels are no uplinks, and there are hundreds of them on a node.
		isDatapath := func(m Link) bool { return m.Index == l.Master && m.Kind == openVSwitch }
		isUplink := slices.Contains([]string{"", "bond", "bridge", "macvlan", "team", "vlan"}, l.Kind)
		return isUplink && slices.ContainsFunc(links, isDatapath)
	case l.Master == upper.Index:
		return true
	case upper.Index == loopbackIndex || upper.Kind == "dummy": // a VIP that is routed to this host
		return l.Kind == "" && l.Index != loopbackIndex || l.Kind == "veth" && l.Master == 0
	default: // IFLA_LINK of a veth is its other end
		return upper.Lower == l.Index && upper.Kind != "veth"
	}
}

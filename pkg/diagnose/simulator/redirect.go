// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// Redirect is a redirection of a port of this host by a nat chain, existing or planned.
type Redirect struct {
	VIP              netip.Addr // the address that clients connect to
	Port, TargetPort uint16
	Priority         int32 // of the nat chain
	OwnTable         Table // that has the nat chain; its chains are skipped
	Link             Link  // by which external packets for the VIP arrive, if known
}

// Direct is a port of this host that no nat chain of the service redirects. Rules apply
// to it as to a redirection to the same port after all nat chains.
func Direct(at netip.AddrPort, own Table, link Link) Redirect {
	return Redirect{VIP: at.Addr(), Port: at.Port(), TargetPort: at.Port(), Priority: math.MaxInt32, OwnTable: own, Link: link}
}

// Obstacle is a rule or policy that keeps packets from the redirection target.
type Obstacle struct {
	Outcome

	Local bool   // it affects clients on this host
	Port  uint16 // destination port of the packet at this point
}

// Simulate follows an external packet and a local one to the target of the redirection.
// certain are the rules that always stop them; possible are those that stop some
// clients, or may do so.
func (d Redirect) Simulate(r Ruleset) (certain, possible []Obstacle, err error) {
	for _, local := range []bool{false, true} {
		f, err := d.simulatePacket(r, local)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range f {
			if one.Uncertainty == 0 {
				certain = append(certain, one)
			} else {
				possible = append(possible, one)
			}
		}
	}
	return certain, possible, nil
}

// simulatePacket follows one packet until an obstacle is certain.
func (d Redirect) simulatePacket(r Ruleset, local bool) ([]Obstacle, error) {
	first := Prerouting
	if local {
		first = Output
	}
	var found []Obstacle
	for _, c := range d.traversedChains(r, first) {
		p := Packet{Destination: netip.AddrPortFrom(d.VIP, d.Port), OriginalPort: d.Port, Local: local, Link: d.Link}
		// At equal priority, the chain that was created later runs first
		// (nf_hook_entries_grow), so either order is possible.
		if c.Hook == Input || c.Priority > d.Priority {
			p.Destination = netip.AddrPortFrom(d.VIP, d.TargetPort)
		}
		outcomes, untracked, err := simulate(r, c, p)
		if err != nil {
			return nil, err
		}
		if o, sure, may := blockingOutcome(outcomes); may {
			o.Uncertainty = uncertaintyOf(outcomes, sure)
			found = append(found, Obstacle{o, local, p.Destination.Port()})
			if sure {
				break
			}
		}
		if c.Priority >= conntrackPriority || len(untracked) == 0 {
			continue // a packet that is tracked by then stays tracked
		}
		found = append(found, Obstacle{untracked[0], local, p.Destination.Port()})
		if untracked[0].Uncertainty == 0 {
			break
		}
	}
	return found, nil
}

// conntrackPriority is the priority at which connection tracking handles a packet
// (NF_IP_PRI_CONNTRACK).
const conntrackPriority = -200

// uncertaintyOf is the reason why an obstacle is not certain.
func uncertaintyOf(outcomes []Outcome, sure bool) Uncertainty {
	if sure {
		return 0
	}
	var why Uncertainty
	for _, o := range outcomes {
		why |= o.Uncertainty
	}
	if why == 0 {
		return NotSimulated
	}
	return why
}

const natType = "nat"

// traversedChains are the base chains that a packet traverses, in order: those of the
// first hook and of the input. nat chains that come too late are left out. The kernel
// consults no further nat chain once the destination, or at the input the source, is
// settled (nf_nat_inet_fn). For a local packet, that happens before the input.
func (d Redirect) traversedChains(r Ruleset, first Hook) []Chain {
	var list []Chain
	family := IPv6
	if d.VIP.Is4() {
		family = IPv4
	}
	for _, c := range r.BaseChains() {
		sees := c.Table.Family == INet || c.Table.Family == family
		onWay := c.Hook == first || c.Hook == Input
		late := c.Type == natType && (c.Hook == Input && first == Output || c.Hook != Input && c.Priority > d.Priority)
		if c.IsBase && sees && onWay && !late && c.Table != d.OwnTable {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b Chain) int {
		if (a.Hook == Input) != (b.Hook == Input) {
			if a.Hook == Input {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Priority, b.Priority)
	})
	return list
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"cmp"
	"net/netip"
	"slices"
)

// Redirect is a redirection of a port of this host, by a nat chain that is there
// or is going to be.
type Redirect struct {
	VIP              netip.Addr
	Port, TargetPort uint16
	Priority         int32 // of the nat chain
	OwnTable         Table // that it is in, which is passed over
	Link             Link  // by which packets for the VIP come from outside, if that is known
}

// Obstacle is a rule that keeps packets from their way.
type Obstacle struct {
	Outcome

	Local bool   // those of this host's own clients
	Port  uint16 // to which they go by then
}

// Simulate follows a packet from outside, and one of this host's own, to where the
// redirection leads. certain are the rules that keep them from there; possible
// those that do so for some clients, or may do so.
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

// simulatePacket follows one packet until something is certain to end it.
func (d Redirect) simulatePacket(r Ruleset, local bool) ([]Obstacle, error) {
	first := Prerouting
	if local {
		first = Output
	}
	var found []Obstacle
	for _, c := range d.traversedChains(r, first) {
		p := Packet{Destination: netip.AddrPortFrom(d.VIP, d.Port), OriginalPort: d.Port, Local: local, Link: d.Link}
		// At the same priority, the one that was made later comes first
		// (nf_hook_entries_grow), so that it may be any.
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
			continue // what is tracked by then stays so
		}
		found = append(found, Obstacle{untracked[0], local, p.Destination.Port()})
		if untracked[0].Uncertainty == 0 {
			break
		}
	}
	return found, nil
}

// conntrackPriority is the priority at which connection tracking sees a packet
// (NF_IP_PRI_CONNTRACK).
const conntrackPriority = -200

// uncertaintyOf is why it is not certain.
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

// traversedChains are the base chains that a packet meets, in their order: those of the
// first hook and of the input, without the nat chains that come too late: the
// kernel asks none any more once the destination, or at the input the source, is
// settled (nf_nat_inet_fn). That of a packet of this host's own is before it comes in.
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

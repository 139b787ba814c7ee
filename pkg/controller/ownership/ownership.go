// SPDX-License-Identifier: Apache-2.0

// Package ownership owns the decision which API VIPs this host serves now, as
// a pure function of the VIPs and the addresses that the host holds.
package ownership

import (
	"net/netip"
	"slices"
)

// Address is one address of the host, on whatever link. Flags that change
// nothing about who holds it (deprecated, secondary, optimistic) do not reach
// this package.
type Address struct {
	IP        netip.Addr
	Bits      int    // length of its subnet's prefix
	Link      string // the name of the link; empty: not known, since nothing hangs on it
	Tentative bool   // duplicate address detection is not done and the address is not usable yet
	DADFailed bool   // another host answered for it
}

// Decision puts every API VIP into exactly one of three classes. Each list is
// sorted, unmapped and without duplicates; an empty one is nil.
type Decision struct {
	Held        []netip.Addr // this host holds it: its port 80 is ours
	Standby     []netip.Addr // it is not here: another host holds it, or none does
	NotRequired []netip.Addr // it is an ingress VIP too, so the routers answer there already
}

// Decide classifies the API VIPs. Addresses may come in any order, repeated
// and in their IPv4-mapped form; invalid ones are ignored.
func Decide(api, ingress []netip.Addr, held []Address) Decision {
	shared := addrSet(ingress)
	usable := make(map[netip.Addr]bool, len(held))
	for _, a := range held {
		if a.IP.IsValid() && !a.Tentative && !a.DADFailed {
			usable[a.IP.Unmap()] = true
		}
	}

	var d Decision
	for vip := range addrSet(api) {
		switch {
		case shared[vip]:
			d.NotRequired = append(d.NotRequired, vip)
		case usable[vip]:
			d.Held = append(d.Held, vip)
		default:
			d.Standby = append(d.Standby, vip)
		}
	}
	for _, list := range [][]netip.Addr{d.Held, d.Standby, d.NotRequired} {
		slices.SortFunc(list, netip.Addr.Compare)
	}
	return d
}

func addrSet(addrs []netip.Addr) map[netip.Addr]bool {
	s := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		if a.IsValid() {
			s[a.Unmap()] = true
		}
	}
	return s
}

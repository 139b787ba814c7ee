// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// Decision assigns every API VIP to one of three classes. Each list is sorted, unmapped
// and without duplicates. An empty list is nil.
type Decision struct {
	Held        []netip.Addr // on this host: their port 80 is redirected
	Standby     []netip.Addr // not on this host
	NotRequired []netip.Addr // it is an ingress VIP too, so the routers serve its port 80
}

// Decide classifies the API VIPs. Addresses may be in any order, duplicated or
// IPv4-mapped. Invalid addresses are ignored.
func Decide(api, ingress []netip.Addr, held []address.Address) Decision {
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

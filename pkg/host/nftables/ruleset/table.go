// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"net/netip"
	"slices"
)

// Name is the table's name; its nftables family is inet.
const Name = "http01-proxyd"

// challengePort is the only port that a CA asks for HTTP-01 (RFC 8555 section 8.3).
const challengePort = 80

// Priorities of the base chains. Of several NAT chains the first to map a
// connection wins, and lower priorities run first: nodes already hold chains at
// -100 (NF_IP_PRI_NAT_DST of linux/netfilter_ipv4.h), so ours run just before
// those, and the verdict on the redirected packet just before other filters.
const (
	NATPriority    = -110
	filterPriority = -1
)

// Table is the desired state of the whole table. Its content cannot be changed
// once New made it; the zero value is no table at all and equals no table that
// New returns for a port.
type Table struct {
	port uint16
	v4   []netip.Addr
	v6   []netip.Addr
}

// New describes the table that leads port 80 of the held VIPs to the given port
// of the same address. The VIPs may come in any order, repeated and in their
// IPv4-mapped form. What cannot be the address of a host is left out: invalid,
// unspecified, multicast, and scoped addresses (a set element has no zone, so it
// would catch the same address on every link).
func New(port uint16, held []netip.Addr) Table {
	t := Table{port: port}
	for _, a := range held {
		a = a.Unmap()
		switch {
		case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "":
		case a.Is4():
			t.v4 = append(t.v4, a)
		default:
			t.v6 = append(t.v6, a)
		}
	}
	t.v4, t.v6 = sortedUnique(t.v4), sortedUnique(t.v6)
	return t
}

func sortedUnique(list []netip.Addr) []netip.Addr {
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// Port is the port that connections are led to.
func (t Table) Port() uint16 { return t.port }

// VIPs returns the VIPs in canonical order, IPv4 first.
func (t Table) VIPs() []netip.Addr { return slices.Concat(t.v4, t.v6) }

// Equal reports whether both describe the same table.
func (t Table) Equal(o Table) bool {
	return t.port == o.port && slices.Equal(t.v4, o.v4) && slices.Equal(t.v6, o.v6)
}

// Sets returns the table's sets with their elements, in the order in which they
// are declared. The two sets are there even when they are empty.
func (t Table) Sets() []Set {
	return []Set{
		{Name: setName(IPv4), Family: IPv4, Elements: slices.Clone(t.v4)},
		{Name: setName(IPv6), Family: IPv6, Elements: slices.Clone(t.v6)},
	}
}

// Chains returns the table's base chains with their rules. They depend on the
// port alone: the rules find the VIPs through the sets.
func (t Table) Chains() []Chain {
	// Packets of other hosts and of pods cross prerouting; those of the host
	// itself cross output alone.
	redirect := []Rule{
		Redirect{Family: IPv4, From: challengePort, To: t.port},
		Redirect{Family: IPv6, From: challengePort, To: t.port},
	}
	return []Chain{
		{Name: "prerouting", Type: NAT, Hook: Prerouting, Priority: NATPriority, Rules: redirect},
		{Name: "output", Type: NAT, Hook: Output, Priority: NATPriority, Rules: redirect},
		{Name: "input", Type: Filter, Hook: Input, Priority: filterPriority, Rules: []Rule{
			AcceptRedirected{Port: t.port},
			RejectDirect{Port: t.port},
		}},
	}
}

// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// Name is the name of the table. Its nftables family is inet.
const Name = "http01-proxyd"

// challengePort is the only port to which CAs connect for HTTP-01 (RFC 8555 section 8.3).
const challengePort = 80

// Priorities of the base chains. The first NAT chain that translates a connection wins, and
// lower priorities run first. OpenShift's chains are at -100 (NF_IP_PRI_NAT_DST of
// linux/netfilter_ipv4.h), so this table redirects before them. It rejects after them: a
// connection that one of them translates, such as to a pod with the same hostPort, is not ours.
const (
	natPriority    = -110
	rejectPriority = -90
)

// Table is the desired state of the whole table. It is immutable, and two equal tables are
// equal with ==. The zero value means that no table should exist. It differs from every table
// with a port.
type Table struct {
	port   uint16
	v4, v6 string // the VIPs of each family: their bytes, sorted and concatenated
}

// New returns the table that redirects port 80 of the held VIPs to a port of the same address.
// The VIPs can be in any order, repeated and IPv4-mapped. Addresses that a host cannot hold are
// ignored: invalid, unspecified, multicast and scoped addresses. A set element cannot contain a
// zone and would match the address on every link.
func New(port uint16, held []netip.Addr) Table {
	var v4, v6 []netip.Addr
	for _, a := range held {
		a = a.Unmap()
		switch {
		case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "":
		case a.Is4():
			v4 = append(v4, a)
		default:
			v6 = append(v6, a)
		}
	}
	return Table{port: port, v4: pack(v4), v6: pack(v6)}
}

// pack makes a list of addresses of one family comparable.
func pack(list []netip.Addr) string {
	slices.SortFunc(list, netip.Addr.Compare)
	var out []byte
	for _, a := range slices.Compact(list) {
		out = append(out, a.AsSlice()...)
	}
	return string(out)
}

func unpack(packed string, addrBytes int) []netip.Addr {
	var list []netip.Addr
	for b := range slices.Chunk([]byte(packed), addrBytes) {
		if a, ok := netip.AddrFromSlice(b); ok {
			list = append(list, a)
		}
	}
	return list
}

func (t Table) vips4() []netip.Addr { return unpack(t.v4, net.IPv4len) }

func (t Table) vips6() []netip.Addr { return unpack(t.v6, net.IPv6len) }

// Port returns the port to which connections are redirected.
func (t Table) Port() uint16 { return t.port }

// VIPs returns the VIPs in canonical order, IPv4 first.
func (t Table) VIPs() []netip.Addr { return slices.Concat(t.vips4(), t.vips6()) }

// Sets returns the table's sets with their elements, in the order of their declaration. Both
// sets exist even if they are empty.
func (t Table) Sets() []Set {
	v4, _, _ := IPv4.names()
	v6, _, _ := IPv6.names()
	return []Set{{Name: v4, Family: IPv4, Elements: t.vips4()}, {Name: v6, Family: IPv6, Elements: t.vips6()}}
}

// Chains returns the table's base chains with their rules. They depend only on the port: the
// rules find the VIPs through the sets.
func (t Table) Chains() []Chain {
	// Packets of other hosts and of pods pass prerouting. Packets of the host itself pass
	// output only.
	redirect := []Rule{
		Redirect{Family: IPv4, From: challengePort, To: t.port},
		Redirect{Family: IPv6, From: challengePort, To: t.port},
	}
	reject := []Rule{RejectDirect{Port: t.port}}
	return []Chain{
		{Name: "prerouting", Hook: Prerouting, Priority: natPriority, Rules: redirect},
		{Name: "output", Hook: Output, Priority: natPriority, Rules: redirect},
		{Name: "reject-prerouting", Hook: Prerouting, Priority: rejectPriority, Rules: reject},
		{Name: "reject-output", Hook: Output, Priority: rejectPriority, Rules: reject},
	}
}

// String returns the whole table in the syntax of nft -f. It equals the output of nft list
// except for the names of priorities. It omits the owner flag: a table that nft -f owned
// would disappear when nft ends.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", Name)
	for _, s := range t.Sets() {
		_, _, element := s.Family.names()
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n", s.Name, element)
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", address.Join(s.Elements))
		}
		b.WriteString("\t}\n\n")
	}
	for i, c := range t.Chains() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype nat hook %s priority %d; policy accept;\n", c.Name, c.Hook, c.Priority)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

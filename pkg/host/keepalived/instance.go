// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// roleOf reads the role off the end of an instance's name; the cluster's name
// before it may hold anything, _API_0 included.
func roleOf(name string) (Role, int) {
	digits := name[strings.LastIndexByte(name, '_')+1:]
	prefix := strings.TrimSuffix(name, digits)
	index, ok := parseInstanceIndex(digits)
	switch {
	case !ok:
		return RoleOther, 0
	case strings.HasSuffix(prefix, "_API_"):
		return RoleAPI, index
	case strings.HasSuffix(prefix, "_INGRESS_"):
		return RoleIngress, index
	default:
		return RoleOther, 0
	}
}

// parseInstanceIndex reads a decimal number as a Go template prints it: digits only,
// no leading zero.
func parseInstanceIndex(s string) (int, bool) {
	if s == "" || len(s) > maxInstanceDigits || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func sortByIndex(in []Instance) {
	slices.SortStableFunc(in, func(a, b Instance) int { return cmp.Compare(a.Index, b.Index) })
}

// family is an address family; the zero value is none.
type family uint8

const (
	familyNone family = iota
	familyIPv4
	familyIPv6
)

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return familyIPv4
	}
	return familyIPv6
}

// applySetting takes the settings of an instance that fix its address family
// (vrrp_parser.c; virtual_ipaddress and unicast_peer do it too).
func (in *instanceState) applySetting(w []token) {
	switch w[0].text {
	case "native_ipv6":
		in.acceptFamily(familyIPv6)
	case "mcast_src_ip", "unicast_src_ip", "mcast_dst_ip":
		if len(w) > 1 {
			in.acceptFamilyOf(w[1].text)
		}
	}
}

// acceptFamily fixes the instance's family when it has none; it reports whether f fits.
func (in *instanceState) acceptFamily(f family) bool {
	if in.family == familyNone {
		in.family = f
	}
	return in.family == f
}

// acceptFamilyOf fixes the family to that of an address, when it is one.
func (in *instanceState) acceptFamilyOf(s string) {
	if a, err := netip.ParseAddr(s); err == nil {
		in.acceptFamily(familyOf(a))
	}
}

// rejectReason says why an address cannot be a VIP of the cluster although somebody
// may have meant one, or nothing. The zero Addr and whatever other instances
// have is none of its business.
func (in *instanceState) rejectReason(a netip.Addr) string {
	switch {
	case in.Role == RoleOther || !a.IsValid():
		return ""
	case a.Zone() != "":
		return "has a zone: write the address without it, and the interface as dev NAME"
	case a.Is4In6():
		return "is an IPv4-mapped IPv6 address: write it as " + a.Unmap().String()
	case a.IsUnspecified():
		return "is the unspecified address: write the VIP"
	case a.IsMulticast():
		return "is a multicast address: write the VIP"
	default:
		return ""
	}
}

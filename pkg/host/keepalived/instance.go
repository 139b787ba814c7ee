// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// roleOf derives the role from the end of an instance's name. The cluster name before it may
// contain any text, even _API_0.
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

// parseInstanceIndex parses a decimal number as a Go template prints it: digits only, no
// leading zero.
func parseInstanceIndex(s string) (int, bool) {
	if s == "" || len(s) > maxInstanceDigits || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16) // unlike Atoi, without a sign
	return int(n), err == nil
}

// family is an address family. The zero value means that no family is set.
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

// applySetting handles the settings that fix an instance's address family (vrrp_parser.c).
// virtual_ipaddress and unicast_peer fix it too.
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

// acceptFamily sets the instance's family if none is set, and reports whether f is the
// instance's family.
func (in *instanceState) acceptFamily(f family) bool {
	if in.family == familyNone {
		in.family = f
	}
	return in.family == f
}

// acceptFamilyOf sets the instance's family to that of an address, if s is an address.
func (in *instanceState) acceptFamilyOf(s string) {
	if a, err := netip.ParseAddr(s); err == nil {
		in.acceptFamily(familyOf(a))
	}
}

// rejectReason returns why an address cannot be a VIP of the cluster, or "". It accepts the
// zero Addr and all addresses of instances with another role.
func (in *instanceState) rejectReason(a netip.Addr) string {
	switch {
	case in.Role == RoleOther || !a.IsValid():
		return ""
	case a.Zone() != "":
		return "has a zone: remove the zone and set the interface with dev NAME"
	case a.Is4In6():
		return "is an IPv4-mapped IPv6 address: write it as " + a.Unmap().String()
	case a.IsUnspecified():
		return "is the unspecified address: use the VIP"
	case a.IsMulticast():
		return "is a multicast address: use the VIP"
	default:
		return ""
	}
}

// maxLabelBytes is the longest address label: IFNAMSIZ minus the terminating NUL.
const maxLabelBytes = 15

// parseVIP parses ADDRESS or ADDRESS/MASK. The mask is ignored: keepalived logs a mask that
// is out of range and keeps the address (parse_ipaddress of vrrp_ipaddress.c).
func parseVIP(s string) (addr netip.Addr, reason string) {
	s, _, _ = strings.Cut(s, "/")
	addr, err := netip.ParseAddr(s)
	switch {
	case err != nil && strings.Contains(s, "$"):
		return netip.Addr{}, "this name is not defined above"
	case err != nil:
		return netip.Addr{}, "it is not an IP address"
	case addr.Zone() != "":
		return addr, "it has a zone"
	}
	return addr, ""
}

// checkAddressOptions returns why keepalived drops an address because of the options after
// it, or "". Keepalived logs unknown options and keeps the address (alloc_ipaddress of
// vrrp_ipaddress.c).
func checkAddressOptions(addr netip.Addr, w []token) string {
	withValue := []string{"dev", "scope", "broadcast", "brd", "label", "peer", "preferred_lft"}
	devs := 0
	for i := 0; i < len(w); i++ {
		key := w[i].text
		if !slices.Contains(withValue, key) {
			continue
		}
		if i++; i == len(w) {
			return strconv.Quote(key) + " requires a value"
		}
		value := w[i].text
		switch {
		case key == "dev" && devs > 0:
			return "dev is set more than once"
		case key == "dev":
			devs++
		case key == "label" && len(value) > maxLabelBytes:
			return "the label is longer than 15 characters"
		case (key == "broadcast" || key == "brd") && !validBroadcast(addr, value):
			return "the broadcast address is invalid"
		}
	}
	return ""
}

func validBroadcast(addr netip.Addr, value string) bool {
	if !addr.Is4() {
		return false
	}
	b, err := netip.ParseAddr(value)
	return value == "+" || value == "-" || err == nil && b.Is4()
}

// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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

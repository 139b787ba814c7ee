// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"net/netip"
	"strconv"
	"strings"
)

// maxLabelBytes is the longest address label: IFNAMSIZ less the terminating NUL.
const maxLabelBytes = 15

// quote makes a word of the configuration fit for a one-line message.
func quote(s string) string { return strconv.Quote(s) }

// parseVIP reads ADDRESS or ADDRESS/MASK. A mask that is out of range costs
// keepalived a message, but not the address (parse_ipaddress of
// vrrp_ipaddress.c), so it is not looked at.
func parseVIP(s string) (addr netip.Addr, reason string) {
	s, _, _ = strings.Cut(s, "/")
	addr, err := netip.ParseAddr(s)
	switch {
	case err != nil && strings.Contains(s, "$"):
		return netip.Addr{}, "no definition of this name is before it"
	case err != nil:
		return netip.Addr{}, "it is no IP address"
	case addr.Zone() != "":
		return addr, "it has a zone"
	}
	return addr, ""
}

// checkAddressOptions says why keepalived would drop an address for the words after it, or
// nothing (alloc_ipaddress of vrrp_ipaddress.c). Words that it does not know
// cost no more than a message.
func checkAddressOptions(addr netip.Addr, w []token) string {
	devs := 0
	for i := 0; i < len(w); i++ {
		key := w[i].text
		if !optionTakesValue(key) {
			continue
		}
		if i++; i == len(w) {
			return quote(key) + " lacks its value"
		}
		value := w[i].text
		switch {
		case key == "dev" && devs > 0:
			return "it names more than one dev"
		case key == "dev":
			devs++
		case key == "label" && len(value) > maxLabelBytes:
			return "its label is longer than 15 characters"
		case (key == "broadcast" || key == "brd") && !validBroadcast(addr, value):
			return "its broadcast address does not fit"
		}
	}
	return ""
}

func optionTakesValue(key string) bool {
	switch key {
	case "dev", "scope", "broadcast", "brd", "label", "peer", "preferred_lft":
		return true
	default:
		return false
	}
}

func validBroadcast(addr netip.Addr, value string) bool {
	if !addr.Is4() {
		return false
	}
	b, err := netip.ParseAddr(value)
	return value == "+" || value == "-" || err == nil && b.Is4()
}

// SPDX-License-Identifier: Apache-2.0

package address

import (
	"net/netip"
	"slices"
	"strings"
)

// Join returns the addresses in one text, separated by commas.
func Join(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// Exclude returns the elements of addrs that others does not contain.
func Exclude(addrs, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

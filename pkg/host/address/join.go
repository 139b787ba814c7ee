// SPDX-License-Identifier: Apache-2.0

package address

import (
	"net/netip"
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

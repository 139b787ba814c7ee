// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line replaces each character that is not printable by a space. Text from other programs
// may contain newlines, which end a field of sd_notify; control characters (including C1
// and UTF-8 forms), which terminals execute; and bidirectional overrides and invisible
// characters, which disguise text. A byte that is not UTF-8 becomes U+FFFD.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Truncate returns the first limit bytes of [Line], the last of which are "…" where
// something was cut off.
func Truncate(s string, limit int) string {
	const ellipsis = "…"
	if len(s) > 4*limit { // Line makes a text of 4 bytes at most 4 times shorter
		s = s[:4*limit]
	}
	s = Line(s)
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// Family returns the name of an address's family.
func Family(addr netip.Addr) string {
	if addr.Unmap().Is4() {
		return "IPv4"
	}
	return "IPv6"
}

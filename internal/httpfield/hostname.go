// SPDX-License-Identifier: Apache-2.0

package httpfield

import "strings"

// IsHostName reports whether name is a lower-case DNS name (RFC 1123 section 2.1, with the
// underscore that real zones use; RFC 1035 section 2.3.4 for the lengths). It also accepts an
// IPv4 address, which looks the same, but no IPv6 address.
func IsHostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

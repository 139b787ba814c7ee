// SPDX-License-Identifier: Apache-2.0

package httpfield

import "bytes"

// ListContains reports whether the comma-separated list (RFC 9110 section 5.6.1)
// contains member. Case is ignored.
func ListContains(list, member []byte) bool {
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte{','})
		if bytes.EqualFold(Trim(item), member) {
			return true
		}
	}
	return false
}

// NamedByConnection reports whether a Connection field among lines, as Next reads
// them, names the field. Such a field applies to one hop only (RFC 9110 section
// 7.6.1).
func NamedByConnection(lines, field []byte) bool {
	for len(lines) > 0 {
		var name, value []byte
		name, value, lines = Next(lines)
		if EqualFold(name, "connection") && ListContains(value, field) {
			return true
		}
	}
	return false
}

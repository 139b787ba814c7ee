// SPDX-License-Identifier: Apache-2.0

package httpfield

import "encoding/binary"

// IsText reports whether b contains only the bytes of a field value (RFC 9110
// section 5.5) or a reason phrase (RFC 9112 section 4): visible characters,
// obs-text, spaces and tabs.
func IsText(b []byte) bool {
	// Eight bytes at a time while there is no control character, not even a tab.
	for len(b) >= 8 && !hasControl(binary.LittleEndian.Uint64(b)) {
		b = b[8:]
	}
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// hasControl reports whether one of the eight bytes of x is below 0x20 or is 0x7f.
// (x-n)&^x has a byte's high bit set only if a byte is below n.
func hasControl(x uint64) bool {
	const ones = 0x0101010101010101
	del := x ^ ones*0x7f
	return ((x-ones*0x20)&^x|(del-ones)&^del)&(ones*0x80) != 0
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsDigits reports whether b consists of one or more decimal digits.
func IsDigits(b []byte) bool {
	for _, c := range b {
		if !IsDigit(c) {
			return false
		}
	}
	return len(b) > 0
}

// Hex returns the value of one hexadecimal digit, and false for other bytes.
func Hex(c byte) (value byte, ok bool) {
	switch c = LowerByte(c); {
	case IsDigit(c):
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}

// ToLower writes name in lower case to buf and returns the written part. It returns nil if name
// is longer than buf, which must hold the longest name that the caller compares.
func ToLower(buf, name []byte) []byte {
	if len(name) > len(buf) {
		return nil
	}
	for i, c := range name {
		buf[i] = LowerByte(c)
	}
	return buf[:len(name)]
}

// EqualFold compares b with text, which must be ASCII in lower case.
func EqualFold(b []byte, text string) bool { return len(b) == len(text) && HasPrefixFold(b, text) }

// HasPrefixFold reports whether b begins with prefix, which must be ASCII in lower
// case.
func HasPrefixFold(b []byte, prefix string) bool {
	if len(b) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if LowerByte(b[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// Trim removes optional white space (RFC 9110 section 5.6.3) from both ends.
func Trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// SPDX-License-Identifier: Apache-2.0

package httpfield

// The properties of a byte, as bits of byteClass.
const (
	tokenBit = 1 << iota // tchar (RFC 9110 section 5.6.2)
	pathBit              // pchar (RFC 3986 section 3.3) without pct-encoded, which is checked after decoding
	nameBit              // a letter, digit, hyphen or underscore, as in DNS names
)

// byteClass maps each byte to the bits of its classes. It is a constant: nothing can change it,
// and an index of type byte needs no bounds check. A test compares it with the grammars.
const (
	byteClass = "" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x03\x00\x01\x03\x01\x03\x03\x02\x02\x03\x03\x02\x07\x03\x00\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x02\x02\x00\x02\x00\x00" +
		"\x02\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x00\x00\x01\x07" +
		"\x01\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x01\x00\x03\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

// IsNameByte reports whether c is allowed in a label of a DNS name.
func IsNameByte(c byte) bool { return byteClass[c]&nameBit != 0 }

// LowerByte returns an ASCII letter in lower case and every other byte unchanged.
func LowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// TokenLength returns the length of the token at the beginning of b, or 0.
func TokenLength(b []byte) int { return classLength(b, tokenBit) }

// PathLength returns the number of bytes at the beginning of b that are allowed unencoded
// in a segment of a path.
func PathLength(b []byte) int { return classLength(b, pathBit) }

// classLength returns the number of bytes at the beginning of b with a property. It checks
// four at a time: a branch for each byte would double the time.
func classLength(b []byte, bit byte) (n int) {
	for ; len(b)-n >= 4; n += 4 {
		if c := b[n : n+4]; byteClass[c[0]]&byteClass[c[1]]&byteClass[c[2]]&byteClass[c[3]]&bit == 0 {
			break
		}
	}
	for n < len(b) && byteClass[b[n]]&bit != 0 {
		n++
	}
	return n
}

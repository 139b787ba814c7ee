// SPDX-License-Identifier: Apache-2.0

package head

// charset is a set of ASCII characters as two words of bits, a constant instead
// of a table that something could change.
type charset struct{ low, high uint64 }

func (s charset) has(c byte) bool {
	switch {
	case c < 64:
		return s.low>>c&1 != 0
	case c < 128:
		return s.high>>(c-64)&1 != 0
	default:
		return false
	}
}

const (
	digitBits = (1<<10 - 1) << '0'
	alphaBits = (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)

	// RFC 9110 section 5.6.2: tchar.
	tokenLow  = digitBits | 1<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.'
	tokenHigh = alphaBits | 1<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64)

	// RFC 3986 section 3.3: pchar without pct-encoded, which is judged by what it
	// encodes.
	pcharLow  = digitBits | 1<<'-' | 1<<'.' | 1<<'!' | 1<<'$' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'*' | 1<<'+' | 1<<',' | 1<<';' | 1<<'=' | 1<<':'
	pcharHigh = alphaBits | 1<<('_'-64) | 1<<('~'-64) | 1<<('@'-64)
)

func isToken(c byte) bool { return charset{tokenLow, tokenHigh}.has(c) }

func isPchar(c byte) bool { return charset{pcharLow, pcharHigh}.has(c) }

// isFieldValue follows RFC 9110 section 5.5: visible characters, obs-text, and
// the white space between them.
func isFieldValue(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLowerAlpha(c byte) bool { return c >= 'a' && c <= 'z' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// unhex returns the value of one hexadecimal digit, and false for other bytes.
func unhex(c byte) (byte, bool) {
	switch c = lower(c); {
	case isDigit(c):
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}

// equalFold compares a name from the wire with a lower-case ASCII name.
func equalFold(b []byte, name string) bool {
	return len(b) == len(name) && hasPrefixFold(b, name)
}

func hasPrefixFold(b []byte, prefix string) bool {
	if len(b) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(b[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// trim cuts optional white space (RFC 9110 section 5.6.3) from both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// SPDX-License-Identifier: Apache-2.0

package head

const (
	digitBits = (1<<10 - 1) << '0'
	alphaBits = (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)

	// RFC 3986 section 3.3: pchar without pct-encoded, which is judged by what it
	// encodes. Two words of bits: a constant instead of a table that something
	// could change.
	pcharLow  = digitBits | 1<<'-' | 1<<'.' | 1<<'!' | 1<<'$' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'*' | 1<<'+' | 1<<',' | 1<<';' | 1<<'=' | 1<<':'
	pcharHigh = alphaBits | 1<<('_'-64) | 1<<('~'-64) | 1<<('@'-64)
)

func isPchar(c byte) bool {
	switch {
	case c < 64:
		return uint64(pcharLow)>>c&1 != 0
	case c < 128:
		return uint64(pcharHigh)>>(c-64)&1 != 0
	default:
		return false
	}
}

func isLowerAlpha(c byte) bool { return c >= 'a' && c <= 'z' }

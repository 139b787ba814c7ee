// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// replaceSurrogates replaces JSON escapes of characters beyond U+FFFF by YAML escapes.
// JSON uses two escapes for such a character (RFC 8259, section 7), which YAML does not
// accept. Other texts are unchanged. Positions after an escape in the same line shift
// by two columns.
func replaceSurrogates(text []byte) []byte {
	if !json.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if text[0] != '\\' { // in JSON it occurs only in strings
			out, text = append(out, text[0]), text[1:]
			continue
		}
		one, is := decodeEscape(text)
		if !is || !utf16.IsSurrogate(one) { // not a surrogate
			out, text = append(out, text[:2]...), text[2:]
			continue
		}
		text = text[len(`\u0000`):]
		pair := utf16.DecodeRune(one, 0) // U+FFFD without a second half, as in JSON parsers
		if two, is := decodeEscape(text); is {
			if r := utf16.DecodeRune(one, two); r != pair {
				pair, text = r, text[len(`\u0000`):]
			}
		}
		out = fmt.Appendf(out, `\U%08X`, pair)
	}
	return out
}

// decodeEscape returns the code unit of \uXXXX at the start of a text.
func decodeEscape(text []byte) (rune, bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

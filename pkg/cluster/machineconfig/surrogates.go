// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// replaceSurrogates replaces JSON escapes of characters beyond U+FFFF by YAML escapes.
// JSON uses two escapes for such a character (RFC 8259, section 7), which YAML does not
// accept. One without the other becomes U+FFFD, as in JSON parsers. Other texts are
// unchanged. Positions after an escape in the same line shift by two columns.
func replaceSurrogates(text []byte) []byte {
	if !json.Valid(text) {
		return text
	}
	// A pair, a single surrogate, or the beginning of another escape.
	escape := regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.`)
	return escape.ReplaceAllFunc(text, func(found []byte) []byte {
		var character string
		if len(found) == len(`\n`) || json.Unmarshal([]byte(`"`+string(found)+`"`), &character) != nil {
			return found
		}
		return fmt.Appendf(nil, `\U%08X`, []rune(character)[0])
	})
}

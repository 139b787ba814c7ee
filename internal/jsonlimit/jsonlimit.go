// SPDX-License-Identifier: Apache-2.0

package jsonlimit

import "slices"

// Cut returns the first limit values of a JSON text, as a complete text, and whether there are more.
// Each member of an object or a list counts, and each object and list once more: `{}` in a list takes
// 3 bytes, and some KiB once it is decoded and shown. The text may be invalid.
func Cut(text []byte, limit int) (kept []byte, more bool) {
	var closing []byte // what ends the objects and lists that are open, the outermost first
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '}' || c == ']':
			closing = closing[:max(0, len(closing)-1)]
		case c == ',' || c == '{' || c == '[':
			end := i
			if c != ',' {
				closing, end = append(closing, c+2), i+1 // of both kinds, in ASCII
			}
			if limit--; limit < 0 {
				slices.Reverse(closing)
				return append(text[:end:end], closing...), true
			}
		}
	}
	return text, false
}

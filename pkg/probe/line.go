// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"strings"
	"unicode"
)

// maxText bounds a text of the network, in characters.
const maxText = 512

// line makes one bounded line of a text: what does not print, and what turns the
// direction of writing, is a space.
func line(s string) string {
	var b strings.Builder
	count := 0
	for _, r := range s {
		if count++; count > maxText {
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"testing"
)

// TestSanitizeLine: no control characters, also those of 8 bits, nothing that turns the
// direction of writing, and no end of it.
func TestSanitizeLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\r\nb\x1b[31m":         "a  b [31m",
		"c1 \u009b2J":            "c1  2J",
		"\u202egnp.exe\u2066":    " gnp.exe ",
		strings.Repeat("é", 600): strings.Repeat("é", 512),
		"\xff\xfe":               "\ufffd\ufffd",
		"":                       "",
	} {
		if got := sanitizeLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

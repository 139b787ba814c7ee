// SPDX-License-Identifier: Apache-2.0

package printable_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// TestTruncate: no control characters, 8-bit ones included, no characters that change
// the direction of writing, and no text beyond the limit.
func TestTruncate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\r\nb\x1b[31m":         "a  b [31m",
		"c1 \u009b2J":            "c1  2J",
		"\u202egnp.exe\u2066":    " gnp.exe ",
		strings.Repeat("é", 600): strings.Repeat("é", 254) + "…",
		strings.Repeat("a", 512): strings.Repeat("a", 512),
		"\xff\xfe":               "\ufffd\ufffd",
		"":                       "",
	} {
		if got := printable.Truncate(text, 512); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

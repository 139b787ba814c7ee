// SPDX-License-Identifier: Apache-2.0

package response

import (
	"strings"
	"testing"
)

func TestKeyFault(t *testing.T) {
	t.Parallel()
	thumbprint := strings.Repeat("x", 43)
	for name, tt := range map[string]struct {
		body string
		more int // bytes of the body after the received part
		what string
	}{
		"the key":            {"tok." + thumbprint, 0, ""},
		"a line break":       {"tok." + thumbprint + "\n", 0, "the key, and a line break follows it"},
		"another line break": {"tok." + thumbprint + "\r\n", 0, "the key, and a line break follows it"},
		"blanks":             {"tok." + thumbprint + "  \n\n", 0, "the key, and white space of 4 bytes follows it"},
		"too long": {
			"tok." + thumbprint + strings.Repeat("y", 90), 0,
			"more than the key: it has 137 bytes, and CAs read 127",
		},
		"far too long":        {"tok." + thumbprint, 5000, "more than the key: it has 5047 bytes, and CAs read 127"},
		"a longer thumbprint": {"tok." + thumbprint + "y", 0, "the token without a valid thumbprint, 48 bytes in all"},
		"of another token":    {"other." + thumbprint, 0, "a text of 49 bytes"},
		"a longer token":      {"tokk." + thumbprint, 0, "a text of 48 bytes"},
		"nothing":             {"", 0, "empty"},
		"HTML":                {"\n<!DOCTYPE HTML>\n<html></html>", 0, "an HTML page of 30 bytes"},
		"what only looks right": {
			"tok." + strings.Repeat("x", 42) + "=", 0,
			"the token without a valid thumbprint, 47 bytes in all",
		},
	} {
		if what := KeyFault([]byte(tt.body), len(tt.body)+tt.more, "tok"); what != tt.what {
			t.Errorf("%s: got %q, want %q", name, what, tt.what)
		}
	}
}

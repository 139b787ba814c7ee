// SPDX-License-Identifier: Apache-2.0

package response

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

func TestKeyFault(t *testing.T) {
	t.Parallel()
	thumbprint := strings.Repeat("x", 43)
	for name, tt := range map[string]struct {
		body string
		more int // bytes of the body after the received part
		want findings.ID
		what string
	}{
		"the key":               {"tok." + thumbprint, 0, "", ""},
		"a line break":          {"tok." + thumbprint + "\n", 0, findings.ResponseTrailingSpace, "a line break"},
		"another line break":    {"tok." + thumbprint + "\r\n", 0, findings.ResponseTrailingSpace, "a line break"},
		"blanks":                {"tok." + thumbprint + "  \n\n", 0, findings.ResponseTrailingSpace, "white space of 4 bytes"},
		"too long":              {"tok." + thumbprint + strings.Repeat("y", 90), 0, findings.ResponseTooLong, "137"},
		"far too long":          {"tok." + thumbprint, 5000, findings.ResponseTooLong, "5047"},
		"a longer thumbprint":   {"tok." + thumbprint + "y", 0, findings.ResponseNotKey, "the token without a valid thumbprint, 48 bytes in all"},
		"of another token":      {"other." + thumbprint, 0, findings.ResponseNotKey, "a text of 49 bytes"},
		"a longer token":        {"tokk." + thumbprint, 0, findings.ResponseNotKey, "a text of 48 bytes"},
		"nothing":               {"", 0, findings.ResponseNotKey, "empty"},
		"HTML":                  {"\n<!DOCTYPE HTML>\n<html></html>", 0, findings.ResponseNotKey, "an HTML page of 30 bytes"},
		"what only looks right": {"tok." + strings.Repeat("x", 42) + "=", 0, findings.ResponseNotKey, "the token without a valid thumbprint, 47 bytes in all"},
	} {
		id, values := KeyFault([]byte(tt.body), len(tt.body)+tt.more, "tok")
		what := values["what"] + values["bytes"]
		if id != tt.want || what != tt.what {
			t.Errorf("%s: got %s %q, want %s %q", name, id, what, tt.want, tt.what)
		}
	}
}

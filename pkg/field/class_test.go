// SPDX-License-Identifier: Apache-2.0

package field_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/field"
)

// TestClasses holds the tables against the grammars, byte for byte.
func TestClasses(t *testing.T) {
	t.Parallel()
	const (
		letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		digits  = "0123456789"

		token      = letters + digits + "!#$%&'*+-.^_`|~" // RFC 9110 section 5.6.2
		unreserved = letters + digits + "-._~"            // RFC 3986 section 2.3
		subDelims  = "!$&'()*+,;="                        // section 2.2
		pchar      = unreserved + subDelims + ":@"        // section 3.3
	)
	for i := range 256 {
		c := byte(i)
		in := func(set string) bool { return strings.IndexByte(set, c) >= 0 }
		if got := field.TokenLength([]byte{c}) == 1; got != in(token) {
			t.Errorf("%#02x in a token: %v", c, got)
		}
		if got := field.IsPath(c); got != in(pchar) {
			t.Errorf("%#02x in a path: %v", c, got)
		}
		if got := field.IsName(c); got != in(letters+digits+"-_") {
			t.Errorf("%#02x in a name: %v", c, got)
		}
		want := c
		if c >= 'A' && c <= 'Z' {
			want += 'a' - 'A'
		}
		if got := field.Lower(c); got != want {
			t.Errorf("%#02x in lower case: %#02x", c, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package httpfield_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// TestClasses compares the tables with the grammars, byte by byte.
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
		if got := httpfield.TokenLength([]byte{c}) == 1; got != in(token) {
			t.Errorf("%#02x in a token: %v", c, got)
		}
		if got := httpfield.PathLength([]byte{c}) == 1; got != in(pchar) {
			t.Errorf("%#02x in a path: %v", c, got)
		}
		if got := httpfield.IsNameByte(c); got != in(letters+digits+"-_") {
			t.Errorf("%#02x in a name: %v", c, got)
		}
		want := c
		if c >= 'A' && c <= 'Z' {
			want += 'a' - 'A'
		}
		if got := httpfield.LowerByte(c); got != want {
			t.Errorf("%#02x in lower case: %#02x", c, got)
		}
	}
}

// TestClassLength ends the run of a class at each offset.
func TestClassLength(t *testing.T) {
	t.Parallel()
	for length := range 20 {
		for end := range length + 1 {
			b := []byte(strings.Repeat("x", end) + strings.Repeat("/", length-end))
			if token, path := httpfield.TokenLength(b), httpfield.PathLength(b); token != end || path != end {
				t.Errorf("%q: token %d, path %d", b, token, path)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"strings"
	"testing"
)

// TestParseLimit: a limit that cannot be filled is an error that names it and the fix.
func TestParseLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		limit int
		err   string
	}{
		"262144\n":    {limit: 262144},
		"1048576\n":   {limit: 1 << 20},
		"1048577\n":   {err: "nf_conntrack_max is 1048577. Set a limit from 1 to 1048576: sysctl "},
		"0\n":         {err: "nf_conntrack_max is 0. Set a limit from 1 "}, // no limit
		"no number\n": {err: "read the limit"},
	} {
		got, err := parseLimit(text)
		if got != want.limit || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

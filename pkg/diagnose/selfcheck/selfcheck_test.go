// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// TestNameNotAllowed: a name missing in hosts is detected without a token.
func TestNameNotAllowed(t *testing.T) {
	t.Parallel()
	front := protocol.FetchResult{Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges)}
	for name, tt := range map[string]struct {
		name  string
		hosts []string
		held  bool
		want  findings.Level
	}{
		"any name":       {"api.lab.test", nil, true, ""},
		"listed":         {"api.lab.test", []string{"other.example.com", "api.lab.test"}, true, ""},
		"not listed":     {"api.lab.test", []string{"other.example.com"}, true, findings.Problem},
		"on a standby":   {"api.lab.test", []string{"other.example.com"}, false, findings.Warning},
		"without a name": {"", []string{"other.example.com"}, true, ""},
	} {
		s := SelfCheck{Name: "api.lab.test", GivenName: tt.name, Hosts: tt.hosts, Holder: tt.held}
		s.Add(Response{VIP: netip.MustParseAddr("192.0.2.5"), Held: tt.held, Page: front})
		var got findings.Level
		for _, f := range s.Check().Findings {
			if f.ID != findings.NameNotAllowed || got != "" {
				t.Errorf("%s: %+v", name, f)
			}
			got = f.Level
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package result

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestMerge: the same finding about both address families is one, with both addresses and the commands
// of both. Other differences stay visible.
func TestMerge(t *testing.T) {
	t.Parallel()
	type found struct {
		at      string
		finding findings.Finding
	}
	of := func(at, message, remediation string, commands ...string) found {
		return found{at, findings.Finding{
			ID: findings.ProxyUnreachable, Message: message, Remediation: remediation, Commands: commands,
		}}
	}
	for name, tt := range map[string]struct {
		all  []found
		want findings.Finding
	}{
		"both families": {
			[]found{
				of("192.0.2.5", "No response at 192.0.2.5:80: refused", "Ask 192.0.2.5.", "show", "fix 192.0.2.5"),
				of("2001:db8::5", "No response at [2001:db8::5]:80: refused", "Ask 2001:db8::5.", "show", "fix 2001:db8::5"),
			},
			findings.Finding{
				Message: "No response at 192.0.2.5:80 (also [2001:db8::5]:80): refused", Remediation: "Ask 192.0.2.5 (also 2001:db8::5).",
				Commands: []string{"show", "fix 192.0.2.5", "fix 2001:db8::5"},
			},
		},
		"another reason": {
			[]found{
				of("192.0.2.5", "192.0.2.5: refused", "Ask."), of("2001:db8::5", "2001:db8::5: reset", "Ask."),
			},
			findings.Finding{Message: "192.0.2.5: refused (also 2001:db8::5)", Remediation: "Ask."},
		},
		"one family": {
			[]found{of("192.0.2.5", "192.0.2.5: no", "Ask."), of("192.0.2.6", "192.0.2.6: no", "Ask.")},
			findings.Finding{Message: "192.0.2.5: no (also 192.0.2.6)", Remediation: "Ask."},
		},
	} {
		tt.want.ID = findings.ProxyUnreachable
		var merged []findings.Finding
		for _, one := range tt.all {
			merged = Merge(merged, one.finding, netip.MustParseAddr(one.at))
		}
		if diff := cmp.Diff([]findings.Finding{tt.want}, merged, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	problem, warning := findings.Finding{Level: findings.Problem}, findings.Finding{Level: findings.Warning}
	if got := Merge([]findings.Finding{problem}, warning, Label("x")); len(got) != 2 {
		t.Errorf("a warning became part of a problem: %+v", got)
	}
}

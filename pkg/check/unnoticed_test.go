// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/systemd"
)

// A service on standby is blind to a VIP that stays, and not to one that comes or
// goes while check looks.
func TestUnnoticed(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	for _, tt := range []struct {
		name          string
		reason        status.Reason
		before, after []netip.Addr
		want          string // what this host holds; empty: all is well
	}{
		{name: "none is here", reason: status.Standby},
		{name: "it stays", reason: status.Standby, before: []netip.Addr{a}, after: []netip.Addr{a}, want: "192.0.2.5"},
		{name: "both stay", reason: status.Standby, before: []netip.Addr{a, b}, after: []netip.Addr{b, a}, want: "192.0.2.5 and 2001:db8::5"},
		{name: "it goes", reason: status.Standby, before: []netip.Addr{a}},
		{name: "it comes", reason: status.Standby, after: []netip.Addr{a}},
		{name: "one goes", reason: status.Standby, before: []netip.Addr{a, b}, after: []netip.Addr{b}, want: "2001:db8::5"},
		{name: "another comes", reason: status.Standby, before: []netip.Addr{a}, after: []netip.Addr{b}},
		{name: "it is served", reason: status.Serving, before: []netip.Addr{a}, after: []netip.Addr{a}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			h := &host{
				held: ownership.Decision{Held: tt.before},
				service: func() (status.Report, error) {
					asked = append(asked, "service")
					return status.Report{Conditions: []status.Condition{{Type: status.ConditionType, Reason: tt.reason}}}, nil
				},
				heldAfter: func() []netip.Addr {
					asked = append(asked, "addresses")
					return tt.after
				},
				unit: func() (systemd.Unit, error) { return systemd.Unit{Load: "not-found"}, nil },
			}
			got := checkService(t.Context(), h)
			if tt.want == "" {
				if got.Outcome != Fine {
					t.Errorf("%+v", got)
				}
			} else if len(got.Findings) != 1 || got.Findings[0].ID != catalogue.ServiceUnwell || !strings.Contains(got.Findings[0].Says, "but this host holds "+tt.want) {
				t.Errorf("want %s, got %+v", tt.want, got)
			}
			if i := slices.Index(asked, "addresses"); i == 0 {
				t.Error("the second look is not after the service's answer")
			}
		})
	}
}

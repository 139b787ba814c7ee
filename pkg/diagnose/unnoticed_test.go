// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// changing is a host on which something goes on while it is looked at: what it holds
// at each look and says at each question, of which the last stands.
type changing struct {
	looks  [][]string
	says   []report.Reason
	silent bool // after the first answer
	order  []string
}

func (c *changing) own() ([]address.Address, error) {
	c.order = append(c.order, "look")
	now := c.looks[0]
	c.looks = c.looks[min(1, len(c.looks)-1):]
	if now == nil {
		return nil, errors.New("the kernel does not say")
	}
	var all []address.Address
	for _, text := range now {
		ip := netip.MustParseAddr(text)
		all = append(all, address.Address{IP: ip, Bits: ip.BitLen()})
	}
	return all, nil
}

func (c *changing) ask() (report.Report, error) {
	c.order = append(c.order, "ask")
	if c.silent && len(c.order) > 1 {
		return report.Report{}, errors.New("it does not run")
	}
	now := c.says[0]
	c.says = c.says[min(1, len(c.says)-1):]
	return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: now}}}, nil
}

// A service on standby is blind to a VIP that stays, and not to one that comes or
// goes while check looks.
func TestUnnoticed(t *testing.T) {
	t.Parallel()
	const v4, v6 = "192.0.2.5", "2001:db8::5"
	standby, serving := []report.Reason{report.Standby}, []report.Reason{report.Serving}
	later := []report.Reason{report.Standby, report.Serving}
	once, twice := []string{"ask"}, []string{"ask", "look", "ask", "look"}
	for _, tt := range []struct {
		name   string
		held   []string // before the service is asked
		looks  [][]string
		says   []report.Reason
		silent bool
		want   string // what this host holds; empty: all is well
		order  []string
	}{
		{name: "none is here", says: standby, order: once},
		{name: "it is served", held: []string{v4}, says: serving, order: once},
		{name: "it stays", held: []string{v4}, looks: [][]string{{v4}}, says: standby, want: v4, order: twice},
		{name: "both stay", held: []string{v4, v6}, looks: [][]string{{v6, v4}}, says: standby, want: v4 + " and " + v6, order: twice},
		{name: "it goes", held: []string{v4}, looks: [][]string{{}}, says: standby, order: []string{"ask", "look"}},
		{name: "it goes a little later", held: []string{v4}, looks: [][]string{{v4}, {}}, says: standby, order: twice},
		{name: "it has come just now", held: []string{v4}, looks: [][]string{{v4}}, says: later, order: []string{"ask", "look", "ask"}},
		{name: "one goes", held: []string{v4, v6}, looks: [][]string{{v6}}, says: standby, want: v6, order: twice},
		{name: "another comes", held: []string{v4}, looks: [][]string{{v6}}, says: standby, order: []string{"ask", "look"}},
		{name: "the service ends", held: []string{v4}, looks: [][]string{{v4}}, says: standby, silent: true, want: v4, order: twice},
		{name: "the addresses are not known", held: []string{v4}, looks: [][]string{nil}, says: standby, want: v4, order: twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &changing{looks: tt.looks, says: tt.says, silent: tt.silent}
			h := &host{
				ask: c.ask, service: sync.OnceValues(c.ask), own: c.own,
				unit: func() (systemd.Unit, error) { return systemd.Unit{Load: "not-found"}, nil },
			}
			h.overlooked = sync.OnceValue(func() []netip.Addr { return h.findOverlooked(t.Context()) })
			var held []netip.Addr
			for _, text := range tt.held {
				held = append(held, netip.MustParseAddr(text))
			}
			h.held = ownership.Decision{Held: held}
			h.unnoticed()
			got := checkService(t.Context(), h)
			if tt.want == "" {
				if got.Outcome != Fine || strings.Contains(got.Text, "but") {
					t.Errorf("%+v", got)
				}
			} else if len(got.Findings) != 1 || got.Findings[0].ID != findings.ServiceUnwell || !strings.HasSuffix(got.Findings[0].Says, "but this host holds "+tt.want) {
				t.Errorf("want %s, got %+v", tt.want, got)
			}
			if diff := cmp.Diff(tt.order, c.order); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

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

// changingHost is a host on which something goes on while it is looked at: what it holds
// at each look and says at each question, of which the last stands.
type changingHost struct {
	addressReads [][]string
	reasons      []report.Reason
	failsLater   bool // after the first answer
	calls        []string
}

func (c *changingHost) readAddresses() ([]address.Address, error) {
	c.calls = append(c.calls, "look")
	now := c.addressReads[0]
	c.addressReads = c.addressReads[min(1, len(c.addressReads)-1):]
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

func (c *changingHost) fetchReport() (report.Report, error) {
	c.calls = append(c.calls, "ask")
	if c.failsLater && len(c.calls) > 1 {
		return report.Report{}, errors.New("it does not run")
	}
	now := c.reasons[0]
	c.reasons = c.reasons[min(1, len(c.reasons)-1):]
	return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: now}}}, nil
}

// A service on standby is blind to a VIP that stays, and not to one that comes or
// goes while check looks.
func TestStandbyMissesVIP(t *testing.T) {
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
			c := &changingHost{addressReads: tt.looks, reasons: tt.says, failsLater: tt.silent}
			h := &host{
				fetchReport: c.fetchReport, report: sync.OnceValues(c.fetchReport), readAddresses: c.readAddresses,
				unit: func() (systemd.Unit, error) { return systemd.Unit{LoadState: "not-found"}, nil },
			}
			h.stillUnnoticed = sync.OnceValue(func() []netip.Addr { return h.findStillUnnoticed(t.Context()) })
			var held []netip.Addr
			for _, text := range tt.held {
				held = append(held, netip.MustParseAddr(text))
			}
			h.ownership = ownership.Decision{Held: held}
			h.unnoticedVIPs()
			got := checkService(t.Context(), h)
			if tt.want == "" {
				if got.Outcome != OK || strings.Contains(got.Text, "but") {
					t.Errorf("%+v", got)
				}
			} else if len(got.Findings) != 1 || got.Findings[0].ID != findings.ServiceNotReady || !strings.HasSuffix(got.Findings[0].Message, "but this host holds "+tt.want) {
				t.Errorf("want %s, got %+v", tt.want, got)
			}
			if diff := cmp.Diff(tt.order, c.calls); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// changingHost is a host that changes during the checks: its addresses at each reading,
// and the service's state at each query. The last ones stay.
type changingHost struct {
	addressReads [][]string
	reasons      []report.Reason
	failsLater   bool // after the first response
	calls        []string
}

func (c *changingHost) held(vips []netip.Addr) []netip.Addr {
	c.calls = append(c.calls, "read")
	now := c.addressReads[0]
	c.addressReads = c.addressReads[min(1, len(c.addressReads)-1):]
	return slices.DeleteFunc(slices.Clone(vips), func(vip netip.Addr) bool { return !slices.Contains(now, vip.String()) })
}

func (c *changingHost) fetchReport() (report.Report, error) {
	c.calls = append(c.calls, "query")
	if c.failsLater && len(c.calls) > 1 {
		return report.Report{}, errors.New("not running")
	}
	now := c.reasons[0]
	c.reasons = c.reasons[min(1, len(c.reasons)-1):]
	return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: now}}}, nil
}

// TestStandbyMissesVIP: a service on standby has missed a VIP only if the VIP stays,
// not if it moves during the check.
func TestStandbyMissesVIP(t *testing.T) {
	t.Parallel()
	const v4, v6 = "192.0.2.5", "2001:db8::5"
	standby, serving := []report.Reason{report.Standby}, []report.Reason{report.Serving}
	later := []report.Reason{report.Standby, report.Serving}
	once, twice := []string{"query"}, []string{"query", "read", "query", "read"}
	for _, tt := range []struct {
		name       string
		held       []string // before the query to the service
		reads      [][]string
		reasons    []report.Reason
		failsLater bool
		want       string // VIPs in the finding; empty: no finding
		order      []string
	}{
		{name: "no VIP", reasons: standby, order: once},
		{name: "it is served", held: []string{v4}, reasons: serving, order: once},
		{name: "it stays", held: []string{v4}, reads: [][]string{{v4}}, reasons: standby, want: v4, order: twice},
		{name: "both stay", held: []string{v4, v6}, reads: [][]string{{v6, v4}}, reasons: standby, want: v4 + " and " + v6, order: twice},
		{name: "it leaves", held: []string{v4}, reads: [][]string{{}}, reasons: standby, order: []string{"query", "read"}},
		{name: "it leaves later", held: []string{v4}, reads: [][]string{{v4}, {}}, reasons: standby, order: twice},
		{name: "it has just arrived", held: []string{v4}, reads: [][]string{{v4}}, reasons: later, order: []string{"query", "read", "query"}},
		{name: "one leaves", held: []string{v4, v6}, reads: [][]string{{v6}}, reasons: standby, want: v6, order: twice},
		{name: "another arrives", held: []string{v4}, reads: [][]string{{v6}}, reasons: standby, order: []string{"query", "read"}},
		{name: "the service stops", held: []string{v4}, reads: [][]string{{v4}}, reasons: standby, failsLater: true, want: v4, order: twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &changingHost{addressReads: tt.reads, reasons: tt.reasons, failsLater: tt.failsLater}
			source := Source{Report: c.fetchReport, Unit: func() (systemd.Unit, error) { return systemd.Unit{LoadState: "not-found"}, nil }, Held: c.held}
			var held []netip.Addr
			for _, text := range tt.held {
				held = append(held, netip.MustParseAddr(text))
			}
			service := New(t.Context(), source, sync.OnceValues(source.Report), held, true)
			service.unnoticed()
			got := service.Check()
			if tt.want == "" {
				if got.Outcome != result.OK || strings.Contains(got.Text, "but") {
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

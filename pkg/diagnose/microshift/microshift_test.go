// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestAdvertiseAddress: MicroShift adds a configured address to no link, nor one of the
// other family, so neither is missing.
func TestAdvertiseAddress(t *testing.T) {
	t.Parallel()
	here := netip.MustParseAddr("127.0.0.1") // on lo of every host
	s := State{Source: Source{Addresses: []address.Address{{IP: here, Bits: 8, Link: 1}}}}
	s.Known = true
	s.Computed = microshift.Computed{
		Internal:              []netip.Addr{here, netip.MustParseAddr("fd02::1:0")},
		AdvertiseAddressGiven: true,
	}
	r := s.CheckInternalAddress()
	if want := "127.0.0.1: on this host (apiServer.advertiseAddress); not redirected"; r.Text != want ||
		len(r.Findings) > 0 || r.NotChecked != "" {
		t.Errorf("%+v", r)
	}
}

// TestFault: a file that only root can read is not a fault for other users.
func TestFault(t *testing.T) {
	t.Parallel()
	snapshot := func(err error) decision.State { return decision.State{Snapshot: microshift.Snapshot{Err: err}} }
	node := netip.MustParseAddr("192.0.2.9")
	for name, tt := range map[string]struct {
		state  decision.State
		reason report.Reason
		root   bool
		want   findings.ID
	}{
		"not readable": {state: snapshot(fs.ErrPermission)},
		"not readable, root": {
			state: snapshot(fs.ErrPermission), root: true,
			want: findings.MicroShiftConfigInvalid,
		},
		"not computed": {
			state: decision.State{ComputeErr: errors.New("overflow")},
			want:  findings.MicroShiftConfigInvalid,
		},
		"removed": {
			state:  decision.State{Computed: microshift.Computed{Router: microshift.Router{Removed: true}}},
			reason: report.UpstreamUnreachable, want: findings.MicroShiftRouterRemoved,
		},
		"no listen address": {reason: report.UpstreamUnreachable, want: findings.MicroShiftRouterNoAddress},
		"not on this host":  {reason: report.NoVIPs, want: findings.MicroShiftNodeAddressMissing},
		"the node address is internal": {
			state:  decision.State{Computed: microshift.Computed{NodeIPs: []netip.Addr{node}}},
			reason: report.NoVIPs, want: findings.MicroShiftNodeAddressInternal,
		},
	} {
		s := State{State: tt.state, Active: true, plan: decision.Plan{Reason: tt.reason}}
		s.Privileged, s.Addresses = tt.root, []address.Address{{IP: node}}
		f, ok := s.Fault(vips.VIPs{MicroShift: true, Err: errors.New("none")})
		if f.ID != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestNewReport: the exporter gets no message of a failure, no name of an issuer and no address of a
// client, and the report itself does not change.
func TestNewReport(t *testing.T) {
	t.Parallel()
	failed := report.SelfTest{
		VIP: netip.MustParseAddr("192.0.2.5"), Checked: time.Unix(1e9, 0).UTC(),
		Cause: "ingress-refused", Error: "192.0.2.6:80 refuses connections",
	}
	unreachable := report.VIPTest{VIP: failed.VIP, Error: "192.0.2.5:80 refuses connections"}
	r := report.Report{
		SelfTests: []report.SelfTest{failed}, VIPTests: []report.VIPTest{unreachable},
		Certificates: []report.Certificate{{Name: "api.example.com", Issuer: "R11", Serial: "5", Error: "timeout"}},
		TestRequests: report.TestRequests{Total: 1, Sources: []report.TestSource{{Address: failed.VIP, Count: 1}}},
	}
	want := failed
	want.Error = ""
	if diff := cmp.Diff([]report.SelfTest{want}, protocol.NewReport(r).SelfTests,
		cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := protocol.NewReport(r).VIPTests; len(got) != 1 || got[0].Error != "" {
		t.Errorf("%+v", got)
	}
	if got := protocol.NewReport(r).Certificates[0]; got != (report.Certificate{Name: "api.example.com"}) {
		t.Errorf("certificate %+v", got)
	}
	if got := protocol.NewReport(r).TestRequests; got.Total != 1 || len(got.Sources) != 0 {
		t.Errorf("test requests %+v", got)
	}
	if r.Certificates[0].Issuer == "" || r.SelfTests[0].Error == "" || r.VIPTests[0].Error == "" {
		t.Error("the report itself has changed")
	}
}

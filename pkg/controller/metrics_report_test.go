// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestMetricsReportHasSelfTests holds that the exporter gets what the metrics of self-tests
// need, and no text.
func TestMetricsReportHasSelfTests(t *testing.T) {
	t.Parallel()
	failed := report.SelfTest{VIP: netip.MustParseAddr("192.0.2.5"), Checked: time.Unix(1e9, 0).UTC(), Cause: "ingress-refused", Error: "192.0.2.6:80 refuses connections"}
	r := report.Report{SelfTests: []report.SelfTest{failed}}
	want := failed
	want.Error = ""
	if diff := cmp.Diff([]report.SelfTest{want}, metricsReport(r).SelfTests, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.SelfTests[0].Error == "" {
		t.Error("the report itself has changed")
	}
}

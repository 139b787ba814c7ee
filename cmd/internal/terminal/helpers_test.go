// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var (
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ingress = netip.MustParseAddrPort("192.0.2.6:80")
)

func newTracker() *tracker.Tracker {
	return tracker.New("v1", start, func(_, _ report.Condition) {})
}

func servingResult() tracker.ReconcileResult {
	return tracker.ReconcileResult{
		Reason: report.Serving, Message: "holds 192.0.2.5",
		VIPs: []report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4", State: report.VIPHeld}},
	}
}

// renderText returns the report as the status command prints it.
func renderText(t *testing.T, r report.Report, now time.Time, view terminal.View) string {
	t.Helper()
	var out strings.Builder
	if err := terminal.Report(r, now).Write(&out, view); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestSmoke runs every measurement briefly with every proxy. It checks that the benchmark
// works and asserts no times.
func TestSmoke(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	// A Ctrl-C must not leave a lab behind. go test waits for this process.
	ctx, stop := signal.NotifyContext(t.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	o := Smoke()
	o.Progress = t.Output()
	var err error
	if o.Binary = os.Getenv("HTTP01_PROXYD"); o.Binary == "" {
		if o.Binary, err = lab.BuildService(ctx); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Run(ctx, o)
	must(t, err)
	if got, want := len(report.Rows), len(o.availableProxies())*len(o.Connections); got != want {
		t.Fatalf("%d rows, want %d", got, want)
	}
	for _, row := range report.Rows {
		checkRow(t, o, row)
	}
	if len(report.Costs) != 2 {
		t.Fatalf("the cost at %d places, want 2", len(report.Costs))
	}
	for _, c := range report.Costs {
		if c.With <= 0 || c.Without <= 0 || c.Ratio.Low > c.Ratio.Mean || c.Ratio.Mean > c.Ratio.High {
			t.Errorf("cost: %+v", c)
		}
	}
	if err := report.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func checkRow(t *testing.T, o Options, row Row) {
	t.Helper()
	if row.Requests == 0 || row.Rate <= 0 || row.Ratio <= 0 || row.P50 <= 0 || row.P999 < row.P99 || row.P99 < row.P50 {
		t.Errorf("%s was not measured: %+v", row.Proxy, row)
	}
	// A busy machine may break a few connections.
	if row.Errors*100 > row.Requests {
		t.Errorf("%s: %d errors in %d requests", row.Proxy, row.Errors, row.Requests)
	}
	if row.Key == "dnat" {
		return // no process
	}
	if row.CPU <= 0 || row.Idle <= 0 || row.Half <= 0 || row.Open != o.HalfHeads {
		t.Errorf("%s: CPU or memory is missing, or connections were closed: %+v", row.Proxy, row)
	}
}

// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestMain is the child process as well, which ends at once.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Prober {
		os.Exit(1)
	}
	nstest.Main(m)
}

// TestProberGone: without the prober process, the network checks are skipped and report
// no fault.
func TestProberGone(t *testing.T) {
	t.Parallel()
	client, err := prober.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	h := &host{prober: client, names: []string{"api.lab.test"}, vips: keepalived.VIPs{
		API: []netip.Addr{netip.MustParseAddr("192.0.2.5")}, Ingress: []netip.Addr{netip.MustParseAddr("192.0.2.6")},
	}}
	h.ResolvConf = writeFile(t, "nameserver 192.0.2.53\n")
	h.config.Upstream.Port = 80
	h.report = func() (report.Report, error) { return report.Report{}, errors.New("not running") }
	h = h.withNetwork(t.Context(), h.prober)
	h.observed.start()
	for _, c := range allChecks() {
		if c.timeout != networkTimeout || c.name == "clock" {
			continue
		}
		if got := c.runWithTimeout(t.Context(), h); got.Outcome != Skipped {
			t.Errorf("%s: %+v", c.name, got)
		} else {
			t.Logf("%s: %s", c.name, got.Text)
		}
	}
}

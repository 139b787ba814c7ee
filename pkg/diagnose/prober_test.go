// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
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

// observationsOf are the observations of a host in which nothing was observed.
func observationsOf(t *testing.T, h host) *observations {
	t.Helper()
	h.config = config.Default()
	h.service = &service.Service{Report: func() (report.Report, error) {
		return report.Report{}, errors.New("not running")
	}}
	client, err := prober.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return newObservations(t.Context(), h, client)
}

// TestProberGone: without the prober process, the network checks are skipped and report
// no fault.
func TestProberGone(t *testing.T) {
	t.Parallel()
	h := host{names: []string{"api.lab.test"}}
	h.VIPs.API, h.VIPs.Ingress = []netip.Addr{netip.MustParseAddr("192.0.2.5")},
		[]netip.Addr{netip.MustParseAddr("192.0.2.6")}
	h.ResolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(h.ResolvConf, []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := observationsOf(t, h)
	for _, c := range allChecks() {
		if c.timeout != networkTimeout || c.name == "clock" {
			continue
		}
		if got := c.runWithTimeout(t.Context(), o); got.Outcome != report.CheckSkipped {
			t.Errorf("%s: %+v", c.name, got)
		} else {
			t.Logf("%s: %s", c.name, got.Text)
		}
	}
}

// TestRecentSources: a host that no longer holds a VIP does not wait for the tests of other hosts.
func TestRecentSources(t *testing.T) {
	t.Parallel()
	source := netip.MustParseAddr("127.0.0.12") // through no gateway
	reported := report.Report{TestRequests: report.TestRequests{Sources: []report.TestSource{
		{Address: source, Last: time.Now()}, {
			Address: netip.MustParseAddr("192.0.2.13"),
			Last:    time.Now().Add(-2 * report.RecentTest),
		},
	}}}
	o := &observations{}
	o.service = &service.Service{Report: func() (report.Report, error) { return reported, nil }}
	if got := o.recentSources(); got != nil {
		t.Errorf("without a VIP: %v", got)
	}
	o.VIPs.Held = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	if got := o.recentSources(); !slices.Equal(got, []netip.Addr{source}) {
		t.Errorf("on the holder: %v", got)
	}
}

// TestAwaitsCA: a trace waits for a CA until the service sees its request for the challenge.
func TestAwaitsCA(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		token  string
		client report.ClientKind
		want   bool
	}{
		{"", report.CertManager, false},
		{"abcdefghij", report.CertManager, true},
		{"abcdefghij", report.LetsEncrypt, false},
		{"another", report.LetsEncrypt, true},
	} {
		reported := report.Report{Challenges: report.Challenges{Recent: []report.RecentChallenge{
			{TokenPrefix: "abcdefgh", ClientKind: tt.client, Time: time.Now()},
		}}}
		o := &observations{}
		o.Token = tt.token
		o.service = &service.Service{Report: func() (report.Report, error) { return reported, nil }}
		if got := o.awaitsCA(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestTokenWithoutName: a token that cannot be traced is a problem.
func TestTokenWithoutName(t *testing.T) {
	t.Parallel()
	h := host{}
	h.Token = "tok"
	steps := observationsOf(t, h).traceChallenge(t.Context())
	if r := result.NewReport(result.Conditions{Privileged: true}, []result.Result{result.Pass("well")},
		steps); r.Outcome != report.CheckProblem || strings.HasPrefix(r.Summary, "No problems") {
		t.Errorf("%+v", r)
	}
}

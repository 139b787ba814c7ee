// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	probing "github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// selfTestPath is the path of a self-test without processes: the announcements to the proxy
// process, and the responses to requests.
type selfTestPath struct {
	mu        sync.Mutex
	start     time.Time
	announced protocol.SelfTest
	tests     []string // when, and of which VIP
	closed    int

	noProxy  bool
	noTable  bool
	bypassed bool // the request does not reach the proxy process
	proberr  error
	status   int
	failure  *cause.Failure // of the proxy process

	reports chan protocol.SelfTested
	log     strings.Builder
}

func (p *selfTestPath) announceSelfTest(_ context.Context, t protocol.SelfTest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.announced = t
	return !p.noProxy
}

func (p *selfTestPath) fetch(_ context.Context, q probing.FetchRequest) (*probing.FetchResult, error) {
	p.mu.Lock()
	p.tests = append(p.tests, time.Since(p.start).String()+" "+q.Addr.Addr().String())
	defer p.mu.Unlock()
	if p.proberr != nil {
		return nil, p.proberr
	}
	if !strings.HasSuffix(q.Path, "/"+p.announced.Token) || q.Addr.Addr() != p.announced.VIP ||
		len(p.announced.Token) < 20 {
		return nil, fmt.Errorf("the request %+v is not the announced one: %+v", q, p.announced)
	}
	if !p.bypassed {
		p.reports <- protocol.SelfTested{
			ID: p.announced.ID, Status: p.status,
			Upstream: netip.MustParseAddrPort("192.0.2.6:80"), Failure: p.failure,
		}
	}
	return &probing.FetchResult{Connected: 1, Status: p.status}, nil
}

func (p *selfTestPath) redirects(netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.noTable
}

func (p *selfTestPath) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
}

// Write implements io.Writer for the log.
func (p *selfTestPath) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(line)
}

// selfTesterTest is a self-tester in a synctest bubble, without jitter.
type selfTesterTest struct {
	*SelfTester
	*selfTestPath

	t      *testing.T
	config config.Config
	held   []report.VIP
}

func withSelfTester(t *testing.T, test func(s *selfTesterTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &selfTestPath{start: time.Now(), status: 503, reports: make(chan protocol.SelfTested, 10)}
		s := &selfTesterTest{selfTestPath: p, t: t, config: config.Default()}
		s.SelfTester = NewSelfTester(SelfTestDependencies{
			Log: slog.New(slog.NewTextHandler(p, nil)), Tracker: newTestTracker(), Causes: new(process.Causes).Get,
			Announce: p.announceSelfTest, Reports: p.reports, Redirects: p.redirects,
		})
		s.pages = p
		s.jitter = func(d time.Duration) time.Duration { return d }
		runDuring(t, s.Run, func() { test(s) })
		if p.closed == 0 {
			t.Error("the prober process is kept after the end")
		}
	})
}

func (s *selfTesterTest) setInterval(interval time.Duration) {
	s.config.SelfTest.Interval = interval
	s.Observe(s.config, nil, s.held)
	synctest.Wait()
}

func (s *selfTesterTest) hold(vips ...string) {
	s.held = []report.VIP{{Address: netip.MustParseAddr("192.0.2.99"), State: report.VIPStandby}}
	for _, v := range vips {
		s.held = append(s.held, report.VIP{Address: netip.MustParseAddr(v), State: report.VIPHeld})
	}
	s.Observe(s.config, nil, s.held)
	synctest.Wait()
}

// change changes the path.
func (s *selfTesterTest) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// expect lets time pass, and compares the self-tests since the last call.
func (s *selfTesterTest) expect(what string, d time.Duration, want ...string) {
	s.t.Helper()
	<-time.After(d)
	synctest.Wait()
	var got []string
	s.change(func() { got, s.tests = s.tests, nil })
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// expectCauses compares the reported results: the cause of each failure, or ok.
func (s *selfTesterTest) expectCauses(what string, want ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.Tracker.Report(report.Table{}).SelfTests {
		result := "ok"
		if !r.OK {
			result = r.Cause
		}
		got = append(got, r.VIP.String()+" "+result)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// lines counts the lines of the log with a text.
func (s *selfTesterTest) lines(part string) (n int) {
	s.change(func() { n = strings.Count(s.log.String(), part) })
	return n
}

const vip4, vip6 = "192.0.2.5", "2001:db8::5"

// TestSelfTestSchedule: only VIPs on this host are tested, after a part of the interval and
// then once in each.
func TestSelfTestSchedule(t *testing.T) {
	withSelfTester(t, func(s *selfTesterTest) {
		s.setInterval(time.Hour)
		s.expect("on standby", 2*time.Hour)
		s.hold(vip6, vip4)
		s.expectCauses("before the first one")
		s.expect("the first ones", time.Hour, "2h15m0s 2001:db8::5", "2h15m0s 192.0.2.5")
		s.expectCauses("both", vip4+" ok", vip6+" ok")
		s.expect("hourly", 2*time.Hour, "3h15m0s 2001:db8::5", "3h15m0s 192.0.2.5", "4h15m0s 2001:db8::5",
			"4h15m0s 192.0.2.5")
		s.hold(vip4)
		s.expectCauses("one has left", vip4+" ok")
		s.hold(vip4, vip6)
		s.expect("one has come back", 20*time.Minute, "5h15m0s 192.0.2.5", "5h15m0s 2001:db8::5")
		s.hold(vip6, "fe80::5")
		s.expect("never a link-local address", time.Hour, "5h35m0s 2001:db8::5")
		s.setInterval(0)
		s.expectCauses("off")
		s.expect("off", 3*time.Hour)
		if s.closed == 0 {
			t.Error("the prober process is kept while self-tests are off")
		}
		s.setInterval(time.Minute)
		s.expect("on again", 20*time.Second, "9h20m15s 2001:db8::5")
		s.change(func() { s.noTable = true })
		s.expect("without the table", time.Hour)
	})
}

// TestSelfTestFailure: one failure is repeated, the second one is reported, and so is the end.
func TestSelfTestFailure(t *testing.T) {
	withSelfTester(t, func(s *selfTesterTest) {
		s.setInterval(time.Hour)
		s.hold(vip4)
		refused := &cause.Failure{Cause: "ingress-refused", Addr: netip.MustParseAddrPort("192.0.2.6:80")}
		fail := func(f *cause.Failure, status int) { s.change(func() { s.failure, s.status = f, status }) }

		fail(refused, 502)
		s.expect("the first one", 15*time.Minute, "15m0s 192.0.2.5")
		s.expectCauses("not repeated yet")
		fail(&cause.Failure{Cause: "route-missing"}, 503)
		s.expect("a temporary fault", 10*time.Second, "15m10s 192.0.2.5")
		s.expectCauses("success", vip4+" ok")
		if n := s.lines("self-test"); n != 0 {
			t.Errorf("%d lines for a temporary fault", n)
		}

		fail(refused, 502)
		s.expect("a failure", time.Hour, "1h15m10s 192.0.2.5")
		s.expectCauses("not repeated yet", vip4+" ok")
		s.expect("repeated", 10*time.Second, "1h15m20s 192.0.2.5")
		s.expectCauses("reported", vip4+" ingress-refused")
		s.expect("sooner while it fails", 10*time.Minute, "1h20m20s 192.0.2.5", "1h25m20s 192.0.2.5")
		if n := s.lines(
			`msg="the self-test of port 80 of 192.0.2.5 failed twice (ingress-refused): 192.0.2.6:80 refuses connections. Check`); n != 1 {
			t.Errorf("%d lines about one failure", n)
		}
		s.change(func() { s.bypassed = true })
		s.expect("another cause", 5*time.Minute, "1h30m20s 192.0.2.5")
		s.expect("another cause", 2*time.Second) // for the report of the proxy process
		s.expectCauses("another cause", vip4+" self-check-fails")
		if n := s.lines("event=self-test-failed"); n != 2 {
			t.Errorf("%d lines about two causes", n)
		}
		since := s.Tracker.Report(report.Table{}).SelfTests[0].Since

		s.change(func() { s.bypassed = false })
		fail(nil, 404)
		s.expect("the end", 5*time.Minute, "1h35m22s 192.0.2.5")
		s.expectCauses("a solver's 404", vip4+" ok")
		if n := s.lines(`msg="the self-test of port 80 of 192.0.2.5 succeeds again, after 20m`); n != 1 ||
			since.Sub(s.start) != 75*time.Minute+20*time.Second {
			t.Errorf("%d lines about the end, failed since %v", n, since)
		}
		s.expect("hourly again", time.Hour, "2h35m22s 192.0.2.5")
	})
}

// TestSelfTestWithoutResult: a self-test that cannot run is no failure.
func TestSelfTestWithoutResult(t *testing.T) {
	withSelfTester(t, func(s *selfTesterTest) {
		s.setInterval(time.Hour)
		s.hold(vip4)
		s.expect("success", 15*time.Minute, "15m0s 192.0.2.5")
		s.change(func() { s.proberr = errors.New("no memory") })
		s.expect("without a prober process", time.Hour+5*time.Minute, "1h15m0s 192.0.2.5", "1h20m0s 192.0.2.5")
		s.change(func() { s.proberr, s.noProxy = nil, true })
		s.expect("without a proxy process", 5*time.Minute)
		s.expectCauses("the last result", vip4+" ok")
		if n := s.lines("event=self-test "); n != 1 {
			t.Errorf("%d lines", n)
		}
		s.change(func() { s.noProxy = false })
		s.expect("with both", 5*time.Minute, "1h30m0s 192.0.2.5")
		s.hold()
		s.expectCauses("on standby")
	})
}

func TestSelfTestVerdict(t *testing.T) {
	t.Parallel()
	q := probing.FetchRequest{Addr: netip.MustParseAddrPort("192.0.2.5:80"), Host: "api.example.com"}
	upstream := netip.MustParseAddrPort("192.0.2.6:80")
	proxied := func(status int, id string) *protocol.SelfTested {
		r := &protocol.SelfTested{Status: status, Upstream: upstream}
		if id != "" {
			r.Failure = &cause.Failure{Cause: id, Addr: upstream}
		}
		return r
	}
	for name, tt := range map[string]struct {
		page     probing.FetchResult
		reported *protocol.SelfTested
		want     findings.ID
		text     string
	}{
		"no route for an address": {probing.FetchResult{Status: 503}, proxied(503, "route-missing-for-address"), "", ""},
		"no route":                {probing.FetchResult{Status: 503}, proxied(503, "route-missing"), "", ""},
		"another solver":          {probing.FetchResult{Status: 404}, proxied(404, ""), "", ""},
		"no connection": {
			probing.FetchResult{Cause: "ingress-timeout"},
			nil, findings.SelfCheckFails,
			"192.0.2.5:80: it does not reply to connection attempts",
		},
		"a text of the network": {
			probing.FetchResult{
				Cause:   "ingress-unreachable",
				Details: cause.Details{Reason: cause.UnknownCA, Issuer: "run this"},
			},
			nil, findings.SelfCheckFails,
			"it is unreachable",
		},
		"another program": {
			probing.FetchResult{Status: 503, Server: "run this"},
			nil, findings.SelfCheckFails,
			"the response has status 503",
		},
		"the ingress is down": {
			probing.FetchResult{Status: 502},
			proxied(502, "ingress-refused"),
			findings.IngressRefused, "192.0.2.6:80 refuses connections",
		},
		"a redirect": {
			probing.FetchResult{Status: 302},
			proxied(302, "route-redirects-https"),
			findings.RouteRedirectsHTTPS, "192.0.2.6:80 redirects",
		},
		"a page": {
			probing.FetchResult{Status: 200},
			proxied(200, ""), findings.NameAlreadyServed,
			"A route serves api.example.com already: 192.0.2.6:80 responds (status 200)",
		},
		"lost behind the proxy": {
			probing.FetchResult{Cause: "ingress-no-response"},
			proxied(503, "route-missing"),
			findings.SelfCheckFails, "did not respond in time",
		},
		"changed after the proxy": {
			probing.FetchResult{Status: 404},
			proxied(503, "route-missing"), findings.SelfCheckFails,
			"the response has status 404",
		},
	} {
		got := judgeSelfTest(q, &tt.page, tt.reported, cause.Context{Host: q.Host})
		if got.ID != tt.want || !strings.Contains(got.Message, tt.text) || strings.Contains(got.String(), "run this") ||
			strings.Contains(got.Message, "{") {
			t.Errorf("%s: %s: %s", name, got.ID, got.Message)
		}
	}
}

// TestSelfTestHost: the request has a name whose challenges are answered.
func TestSelfTestHost(t *testing.T) {
	t.Parallel()
	check := func(c config.Config, apiNames []string, want string, wantKnown bool) {
		t.Helper()
		s := NewSelfTester(SelfTestDependencies{})
		s.Observe(c, apiNames, nil)
		if got, known := s.inputs.Load().host(); got != want || known != wantKnown {
			t.Errorf("got %q, %v, want %q, %v", got, known, want, wantKnown)
		}
	}
	c, api := config.Default(), []string{"api.example.com"}
	check(c, nil, "", true)
	check(c, api, "api.example.com", true)
	c.Upstream.Scheme = config.SchemeHTTPS
	check(c, nil, "", false)
	check(c, api, "api.example.com", true)
	c.Hosts = []string{"a.example", "b.example"}
	check(c, api, "a.example", true)
}

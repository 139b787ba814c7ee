// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
)

func network() model.Network {
	a := netip.MustParseAddr
	return model.Network{
		API:     []netip.Addr{a("192.0.2.5"), a("2001:db8::5"), a("192.0.2.6"), a("2001:db8::6")},
		Ingress: []netip.Addr{a("192.0.2.80"), a("2001:db8::80")},
	}
}

// start is the time of the first process. Every model starts long before the faults.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// step is a fault that begins some time after the one before.
type step struct {
	after time.Duration
	model.Fault
}

func expectations(steps ...step) (m *model.Model, outcomes []string) {
	now := start
	m = model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, now)
	for _, s := range steps {
		now = now.Add(s.after)
		m.Apply(s.Fault, true, now)
	}
	now = m.Due(now)
	for _, o := range m.Expect(now) {
		outcomes = append(outcomes, o.String())
	}
	slices.Sort(outcomes)
	return m, outcomes
}

const long = time.Minute

// TestExpect: what must be true when all bounds have passed.
func TestExpect(t *testing.T) {
	t.Parallel()
	add := func(after time.Duration, vip int) step {
		return step{after, model.Fault{Kind: model.VIPAdd, VIP: vip}}
	}
	file := func(after time.Duration, kind model.Kind, f model.File, variant, n int) step {
		return step{after, model.Fault{Kind: kind, File: f, Variant: variant, N: n}}
	}
	simple := func(after time.Duration, kind model.Kind, n int) step {
		return step{after, model.Fault{Kind: kind, N: n}}
	}
	const standby = "port 8888, sets {}, VIPs {192.0.2.5 Standby, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 Standby}, reason Standby, configuration file, metrics 0"
	held := func(reason, source string) string {
		return fmt.Sprintf("port 8888, sets {192.0.2.5}, VIPs {192.0.2.5 Held, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 Standby}, reason %s, configuration %s, metrics 0", reason, source)
	}
	none := func(reason, source string) string {
		return fmt.Sprintf("port 0, sets {}, VIPs {}, reason %s, configuration %s, metrics 0", reason, source)
	}
	for _, tc := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"no VIP here", nil, []string{standby}},
		{"a VIP", []step{add(long, 0)}, []string{held("Serving", "file")}},
		{"a VIP on two links, removed", []step{add(long, 0), {long, model.Fault{Kind: model.VIPAdd, Link: 1}}, simple(long, model.VIPRemove, 0)}, []string{standby}},
		{"tentative", []step{{long, model.Fault{Kind: model.VIPTentative, VIP: 1}}}, []string{standby}},
		{"an even flap", []step{add(long, 0), simple(long, model.VIPFlap, 6)}, []string{standby}},
		{"an odd flap", []step{simple(long, model.VIPFlap, 7)}, []string{held("Serving", "file")}},
		{"IPv4 addresses stay on a link that is down", []step{add(long, 0), add(long, 1), simple(long, model.LinkDown, 0)}, []string{held("Serving or UpstreamUnreachable", "file")}},
		{"no IPv6", []step{add(long, 0), add(long, 1), simple(long, model.IPv6Off, 0), add(long, 3)}, []string{held("Serving", "file")}},
		{"an incomplete keepalived.conf", []step{add(long, 0), file(long, model.FileCut, model.KeepalivedConf, 0, 700)}, []string{held("Serving", "file")}},
		{"the same at a start", []step{add(long, 0), file(long, model.FileCut, model.KeepalivedConf, 0, 700), simple(long, model.Restart, 0)}, []string{none("NoVIPs", "file")}},
		{"no keepalived.conf", []step{add(long, 0), file(long, model.FileRemove, model.KeepalivedConf, 0, 0)}, []string{none("NotRequired", "file")}},
		{"a bad keepalived.conf after none", []step{
			add(long, 0), file(long, model.FileRemove, model.KeepalivedConf, 0, 0), file(long, model.FileHuge, model.KeepalivedConf, 0, 0),
		}, []string{none("NoVIPs", "file")}},
		{"a race: either file can be the last good one", []step{
			add(long, 0), file(long, model.FileWrite, model.KeepalivedConf, 3, 0), file(time.Second, model.FileLoop, model.KeepalivedConf, 0, 0),
		}, []string{
			"port 8888, sets {192.0.2.5}, VIPs {192.0.2.5 Held, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 Standby}, reason Serving, configuration file, metrics 0",
			"port 8888, sets {}, VIPs {2001:db8::5 Standby}, reason Standby, configuration file, metrics 0",
		}},
		{"no race after the bound", []step{
			add(long, 0), file(long, model.FileWrite, model.KeepalivedConf, 3, 0), file(long, model.FileLoop, model.KeepalivedConf, 0, 0),
		}, []string{"port 8888, sets {}, VIPs {2001:db8::5 Standby}, reason Standby, configuration file, metrics 0"}},
		{"a rejected configuration", []step{add(long, 0), file(long, model.FileCut, model.ConfigYAML, 2, 500)}, []string{held("InvalidConfig", "last-accepted")}},
		{"a race: the reload can find an empty file", []step{
			add(long, 0), simple(long, model.Reload, 0), file(time.Millisecond, model.FileCut, model.ConfigYAML, 2, 500),
		}, []string{
			none("InvalidConfig", "last-accepted"), held("InvalidConfig", "last-accepted"),
		}},
		{"the same over a restart", []step{
			add(long, 0), file(long, model.FileCut, model.ConfigYAML, 2, 500), simple(long, model.KillController, 0),
		}, []string{held("InvalidConfig", "last-accepted")}},
		{"an empty configuration", []step{add(long, 0), file(long, model.FileCut, model.ConfigYAML, 0, 0)}, []string{none("NotRequired", "file")}},
		{"disabled", []step{add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 2, 0)}, []string{none("Disabled", "file")}},
		{"an ingress VIP that is an API VIP", []step{add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 5, 0)}, []string{
			"port 8888, sets {}, VIPs {192.0.2.5 NotRequired, 2001:db8::5 Standby}, reason Standby, configuration file, metrics 0",
		}},
		{"the new port is in use: the old one stays", []step{
			add(long, 0), simple(long, model.PortTake, model.OtherPort), file(long, model.FileWrite, model.ConfigYAML, 1, 0),
		}, []string{held("PortInUse", "file")}},
		{"a controller without descriptors", []step{
			add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 3, 0), simple(0, model.FewDescriptorsController, 600),
		}, []string{strings.Replace(held("Serving", "file"), "metrics 0", "metrics 9645", 1)}},
		{"the port is in use at a start", []step{
			simple(long, model.Stop, 0), simple(long, model.PortTake, model.DefaultPort), simple(long, model.Start, 0),
		}, []string{
			"port 0, sets {}, VIPs {192.0.2.5 Standby, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 Standby}, reason PortInUse, configuration file, metrics 0",
		}},
		{"stopped", []step{add(long, 0), simple(long, model.Stop, 0)}, []string{"stopped: no table, no socket"}},
		{"the ingress refuses connections", []step{add(long, 0), {long, model.Fault{Kind: model.IngressMode, Mode: model.Refused}}}, []string{held("Serving or UpstreamUnreachable", "file")}},
		{"an exit of the proxy process", []step{add(long, 0), simple(long, model.KillProxy, 0)}, []string{held("Serving or ProxyUnavailable", "file")}},
		{"pauses of the exporter and the prober process", []step{
			add(long, 0), simple(long, model.PauseExporter, 10_000), simple(0, model.PauseProber, 10_000),
		}, []string{held("Serving", "file")}},
		{"three exits", []step{
			add(long, 0), simple(long, model.KillProxy, 0), simple(time.Second, model.KillProxy, 0), simple(time.Second, model.KillProxy, 0),
		}, []string{held("ProxyUnavailable", "file")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, got := expectations(tc.steps...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDue: until when the host must agree.
func TestDue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault model.Fault
		want  time.Duration
	}{
		{"an address", model.Fault{Kind: model.VIPAdd}, time.Second},
		{"more VIPs", model.Fault{Kind: model.FileWrite, File: model.KeepalivedConf}, time.Second},
		{"fewer VIPs", model.Fault{Kind: model.FileWrite, File: model.KeepalivedConf, Variant: 2}, 3 * time.Second},
		{"an incomplete keepalived.conf", model.Fault{Kind: model.FileCut, File: model.KeepalivedConf, N: 700}, time.Second},
		{"no keepalived.conf, and the requests in flight", model.Fault{Kind: model.FileRemove, File: model.KeepalivedConf}, 8 * time.Second},
		{"a configuration", model.Fault{Kind: model.FileWrite, File: model.ConfigYAML, Variant: 3}, 1100 * time.Millisecond},
		{"a port that is free again", model.Fault{Kind: model.PortGive, N: 8888}, 5 * time.Second},
		{"a hanging proxy process", model.Fault{Kind: model.HangProxy}, 13100 * time.Millisecond},
		{"full connection tracking, and the service's own requests", model.Fault{Kind: model.ConntrackFull}, 11 * time.Second},
		{"a controller that was stopped until now", model.Fault{Kind: model.PauseController, N: 10_000}, time.Second},
		{"a proxy process that was stopped until now", model.Fault{Kind: model.PauseProxy, N: 800}, time.Second},
	} {
		m, _ := expectations(step{long, tc.fault})
		if got := m.Due(start.Add(long)).Sub(start.Add(long)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestServes: when each request must be answered, whatever the service has seen so far.
func TestServes(t *testing.T) {
	t.Parallel()
	vip := network().API[0]
	for _, tc := range []struct {
		name string
		step step
		want bool
	}{
		{"nothing", step{long, model.Fault{Kind: model.KillProber}}, true},
		{"an incomplete keepalived.conf", step{long, model.Fault{Kind: model.FileCut, File: model.KeepalivedConf, N: 700}}, true},
		{"a file without this VIP may be accepted", step{long, model.Fault{Kind: model.FileWrite, File: model.KeepalivedConf, Variant: 3}}, false},
		{"removed", step{long, model.Fault{Kind: model.VIPRemove}}, false},
		{"link down", step{long, model.Fault{Kind: model.LinkDown}}, false},
		{"silent ingress", step{long, model.Fault{Kind: model.IngressMode, Mode: model.Silent}}, false},
		{"slow ingress", step{long, model.Fault{Kind: model.IngressMode, Mode: model.Dribble}}, true},
		{"flushed ruleset", step{long, model.Fault{Kind: model.FlushRuleset}}, true},
		{"restart", step{long, model.Fault{Kind: model.Restart}}, true},
		{"stop", step{long, model.Fault{Kind: model.Stop}}, false},
		{"full connection tracking", step{long, model.Fault{Kind: model.ConntrackFull}}, false},
		{"room in connection tracking", step{long, model.Fault{Kind: model.ConntrackFree}}, true},
	} {
		m, _ := expectations(step{long, model.Fault{Kind: model.VIPAdd}}, tc.step)
		if got := m.Serves(vip, start.Add(2*long)); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestLateVIPs: a VIP that has just arrived when a process ends can be missing until the
// next one has begun, and one that has just arrived when the controller is stopped until it
// continues. A restart of a working process costs nothing.
func TestLateVIPs(t *testing.T) {
	t.Parallel()
	vips := network().API
	arrives, soon := step{long, model.Fault{Kind: model.VIPAdd}}, 100*time.Millisecond
	for _, tc := range []struct {
		name  string
		steps []step
		want  bool
	}{
		{"restart", []step{arrives, {soon, model.Fault{Kind: model.Restart}}}, true},
		{"crash", []step{arrives, {soon, model.Fault{Kind: model.KillController}}}, false},
		{"crash later", []step{arrives, {long, model.Fault{Kind: model.KillController}}}, true},
		{"crash soon after a slow start", []step{{long, model.Fault{Kind: model.Restart}}, {0, model.Fault{Kind: model.VIPAdd}}, {2500 * time.Millisecond, model.Fault{Kind: model.KillController}}}, false},
		{"two restarts", []step{arrives, {soon, model.Fault{Kind: model.Restart}}, {soon, model.Fault{Kind: model.Restart}}}, false},
		{"a stop of the controller after an arrival", []step{arrives, {300 * time.Millisecond, model.Fault{Kind: model.PauseController, N: 278}}}, false},
		{"the same after a flap", []step{arrives, {long, model.Fault{Kind: model.VIPFlap, N: 3}}, {300 * time.Millisecond, model.Fault{Kind: model.PauseController, N: 278}}}, false},
		{"the same later", []step{arrives, {long, model.Fault{Kind: model.PauseController, N: 278}}}, true},
		{"a stop during a start", []step{arrives, {long, model.Fault{Kind: model.Restart}}, {0, model.Fault{Kind: model.VIPFlap, N: 3}}, {2500 * time.Millisecond, model.Fault{Kind: model.PauseController, N: 100}}}, false},
		{"a crash after a flap", []step{arrives, {long, model.Fault{Kind: model.VIPFlap, N: 3}}, {0, model.Fault{Kind: model.KillController}}}, false},
		{"restart on a slow disk", []step{{0, model.Fault{Kind: model.SlowDisk}}, arrives, {long, model.Fault{Kind: model.Restart}}}, false},
	} {
		m, now := model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, start), start
		m.Slack = time.Second
		for _, s := range append([]step{{long, model.Fault{Kind: model.VIPAdd, VIP: 2}}}, tc.steps...) {
			now = now.Add(s.after)
			m.Apply(s.Fault, true, now)
		}
		if got := m.Serves(vips[0], now); got != tc.want {
			t.Errorf("%s: served: %t", tc.name, got)
		}
		if tc.name == "crash" && !m.Serves(vips[2], now) {
			t.Error("the crash costs a VIP that was here before")
		}
		if !m.Serves(vips[0], now.Add(long)) {
			t.Errorf("%s: not served for ever", tc.name)
		}
	}
}

// TestLateAfterStop: a stop of the controller delays its reaction by its own length.
func TestLateAfterStop(t *testing.T) {
	t.Parallel()
	m, _ := expectations(step{long, model.Fault{Kind: model.VIPAdd}}, step{900 * time.Millisecond, model.Fault{Kind: model.PauseController, N: 1}})
	vip, due := network().API[0], start.Add(long+time.Second+time.Millisecond)
	if m.Serves(vip, due.Add(-time.Millisecond)) || !m.Serves(vip, due) {
		t.Error("the VIP is not late, or for too long")
	}
}

// TestHang: a proxy process that is stopped serves nobody until it is killed or continued,
// or until the controller must have replaced it.
func TestHang(t *testing.T) {
	t.Parallel()
	vip := network().API[0]
	hang, soon := step{long, model.Fault{Kind: model.HangProxy}}, time.Second
	for _, tc := range []struct {
		name   string
		steps  []step
		after  time.Duration
		want   bool
		due    time.Duration // after the last fault
		reason string
	}{
		{"hanging", []step{hang}, 11 * time.Second, false, 13100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"replaced", []step{hang}, 12 * time.Second, true, 13100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"killed", []step{hang, {soon, model.Fault{Kind: model.KillProxy}}}, 0, true, 1100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"continued", []step{hang, {soon, model.Fault{Kind: model.PauseProxy, N: 1}}}, 0, true, time.Second, "Serving"},
		{"hangs again", []step{hang, {soon, model.Fault{Kind: model.HangProxy}}}, 11 * time.Second, true, 12100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"the successor hangs", []step{hang, {10 * time.Second, model.Fault{Kind: model.HangProxy}}}, 11 * time.Second, false, 13200 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"a short stop of the controller", []step{hang, {soon, model.Fault{Kind: model.PauseController, N: 800}}}, 11 * time.Second, true, 12100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"a long stop of the controller", []step{hang, {soon, model.Fault{Kind: model.PauseController, N: 10_000}}}, 11 * time.Second, false, 13100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"a long stop of the controller, later", []step{hang, {5 * time.Second, model.Fault{Kind: model.PauseController, N: 10_000}}}, 11 * time.Second, false, 13100 * time.Millisecond, "Serving or ProxyUnavailable"},
		{"restarted", []step{hang, {soon, model.Fault{Kind: model.Restart}}}, 0, true, 2 * time.Second, "Serving"},
	} {
		now := start
		m := model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, now)
		for _, s := range append([]step{{long, model.Fault{Kind: model.VIPAdd}}}, tc.steps...) {
			now = now.Add(s.after)
			m.Apply(s.Fault, true, now)
		}
		if got := m.Due(now).Sub(now); got != tc.due {
			t.Errorf("%s: due after %v, want %v", tc.name, got, tc.due)
		}
		now = now.Add(tc.after)
		m.Advance(now)
		if got := m.Serves(vip, now); got != tc.want || !m.WillServe(vip, now) {
			t.Errorf("%s: served after %v: %t; at the end: %t", tc.name, tc.after, got, m.WillServe(vip, now))
		}
		if got := m.Expect(now); len(got) != 1 || strings.Join(got[0].Reasons, " or ") != tc.reason {
			t.Errorf("%s: %v, want the reason %s", tc.name, got, tc.reason)
		}
	}
}

// TestCutByStall: a controller that is stopped for long starts no proxy process meanwhile.
func TestCutByStall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before model.Kind
		n      int
		want   int
	}{{model.Restart, 10_000, 4}, {model.KillProxy, 10_000, 4}, {model.Restart, 800, 0}, {model.Reload, 10_000, 0}} {
		m := model.New(network(), model.Paths{}, 0, start)
		m.Apply(model.Fault{Kind: tc.before}, true, start.Add(long))
		stop := model.Fault{Kind: model.PauseController, N: tc.n}
		if got := m.Cut(stop, start.Add(long+time.Millisecond)); len(got) != tc.want {
			t.Errorf("%d ms after %s: %v", tc.n, tc.before, got)
		}
		if got := m.Cut(stop, start.Add(2*long)); len(got) != 0 {
			t.Errorf("%d ms long after %s: %v", tc.n, tc.before, got)
		}
	}
}

// TestStall: a controller that was stopped has not seen the removal of a file meanwhile.
func TestStall(t *testing.T) {
	t.Parallel()
	m, now := model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, start), start
	for _, s := range []step{
		{long, model.Fault{Kind: model.VIPAdd}},
		{long, model.Fault{Kind: model.FileRemove, File: model.KeepalivedConf}},
		{10 * time.Second, model.Fault{Kind: model.PauseController, N: 9900}},
	} {
		now = now.Add(s.after)
		m.Apply(s.Fault, true, now)
	}
	if got := m.Due(now).Sub(now).Round(time.Second); got != 8*time.Second {
		t.Errorf("due after %v, want 8 s: it must be removed for two, and requests in flight have five", got)
	}
	vip := network().API[0]
	if m.Serves(vip, now) || m.WillServe(vip, now) {
		t.Error("the VIP is served without a file")
	}
}

// TestRecovery: how long requests may fail to a VIP that has just arrived. Bounds of other
// faults do not count.
func TestRecovery(t *testing.T) {
	t.Parallel()
	arrives := step{time.Second, model.Fault{Kind: model.VIPAdd}}
	for _, tc := range []struct {
		name  string
		steps []step
		want  time.Duration
	}{
		{"alone", []step{arrives}, time.Second},
		{"after a port was given back", []step{{long, model.Fault{Kind: model.PortGive, N: model.OtherPort}}, arrives}, time.Second},
		{"after an exit of the proxy process", []step{{long, model.Fault{Kind: model.KillProxy}}, {0, model.Fault{Kind: model.KillProxy}}, {0, model.Fault{Kind: model.KillProxy}}, arrives}, time.Second},
		{"after a stop of the controller", []step{{long, model.Fault{Kind: model.PauseController, N: 10_000}}, arrives}, time.Second},
		{"after a configuration that changes nothing of it", []step{{long, model.Fault{Kind: model.FileWrite, File: model.ConfigYAML, Variant: 3}}, arrives}, time.Second},
		{"just after a start", []step{{long, model.Fault{Kind: model.Restart}}, {0, model.Fault{Kind: model.VIPAdd}}}, 2 * time.Second},
	} {
		now := start
		m := model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, now)
		for _, s := range tc.steps {
			now = now.Add(s.after)
			m.Apply(s.Fault, true, now)
		}
		if got := m.Recovery(now); got != tc.want || !m.Serves(network().API[0], now) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestPortGivenBack: no VIP is served until the service has tried the port again.
func TestPortGivenBack(t *testing.T) {
	t.Parallel()
	m, _ := expectations(step{long, model.Fault{Kind: model.VIPAdd}}, step{long, model.Fault{Kind: model.Stop}},
		step{long, model.Fault{Kind: model.PortTake, N: model.DefaultPort}}, step{long, model.Fault{Kind: model.Start}}, step{long, model.Fault{Kind: model.PortGive, N: model.DefaultPort}})
	vip, given := network().API[0], start.Add(5*long)
	if m.Serves(vip, given) || m.Serves(vip, given.Add(4900*time.Millisecond)) || !m.Serves(vip, given.Add(5*time.Second)) || !m.WillServe(vip, given) {
		t.Error("served before the retry, or not after it")
	}
}

// TestCut: which VIPs lose the requests in flight.
func TestCut(t *testing.T) {
	t.Parallel()
	v := network().API
	for _, tc := range []struct {
		fault model.Fault
		want  []netip.Addr
	}{
		{model.Fault{Kind: model.VIPRemove, VIP: 2}, v[2:3]},
		{model.Fault{Kind: model.VIPFlap, VIP: 1}, v[1:2]},
		{model.Fault{Kind: model.IPv6Off}, []netip.Addr{v[1], v[3]}},
		{model.Fault{Kind: model.LinkDown}, v},
		{model.Fault{Kind: model.LinkDown, Link: 1}, v[3:]},
		{model.Fault{Kind: model.KillProxy}, v},
		{model.Fault{Kind: model.Restart}, nil},
		{model.Fault{Kind: model.PauseExporter, N: 10_000}, nil},
		{model.Fault{Kind: model.PauseProber, N: 10_000}, nil},
		{model.Fault{Kind: model.FewDescriptorsController, N: 800}, nil},
		{model.Fault{Kind: model.VIPAdd}, nil},
	} {
		m := model.New(network(), model.Paths{}, 0, start)
		m.Apply(model.Fault{Kind: model.VIPAdd, VIP: 3, Link: 1}, true, start.Add(long))
		if diff := cmp.Diff(tc.want, m.Cut(tc.fault, start.Add(2*long)), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.fault, diff)
		}
	}
}

// TestCutKeepalived: each part of a file is incomplete, or has the complete blocks.
func TestCutKeepalived(t *testing.T) {
	t.Parallel()
	whole := network().KeepalivedFile(1).Body
	blocks := 0
	for n := range len(whole) + 1 {
		got := model.CutKeepalived(whole, n)
		complete := strings.Count(whole[:n], "\n}")
		addrs := len(got.Keepalived.API.List()) + len(got.Keepalived.Ingress.List())
		if !got.Rejected && addrs != complete {
			t.Fatalf("%d bytes: %d addresses of %d blocks", n, addrs, complete)
		}
		inside := strings.Count(whole[:n], "{") != strings.Count(whole[:n], "}")
		if inside && !got.Rejected {
			t.Fatalf("%d bytes end inside a block and are accepted", n)
		}
		if !got.Rejected {
			blocks = max(blocks, addrs)
		}
	}
	if blocks != 4 || !model.CutKeepalived(whole, 0).Rejected || model.CutKeepalived(whole, len(whole)).Settles {
		t.Errorf("%d blocks are accepted", blocks)
	}
}

// TestCutConfig: no part of a configuration is another configuration.
func TestCutConfig(t *testing.T) {
	t.Parallel()
	whole := network().ConfigFile(1, "/k", "/c", "/e")
	for n := range len(whole.Body) + 1 {
		got := model.CutConfig(whole, n)
		if want := n > 0 && n < len(whole.Body)-1; got.Rejected != want {
			t.Errorf("%d bytes: rejected %v", n, got.Rejected)
		}
	}
	if got := model.CutConfig(whole, 0); got.Config != model.Defaults() || !got.Settles {
		t.Errorf("empty: %+v", got)
	}
}

// TestPausesOfOthers: clients are served while the exporter or the prober process is stopped,
// and the host must agree after a second.
func TestPausesOfOthers(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.Kind{model.PauseExporter, model.PauseProber} {
		m, now := model.New(network(), model.Paths{}, 0, start), start.Add(long)
		m.Apply(model.Fault{Kind: model.VIPAdd}, true, now)
		now = now.Add(long)
		m.Apply(model.Fault{Kind: kind, N: 10_000}, true, now)
		if due := m.Due(now).Sub(now); due != time.Second || !m.Serves(network().API[0], now) {
			t.Errorf("%s: due after %v, served %t", kind, due, m.Serves(network().API[0], now))
		}
	}
}

// TestIdle: which faults count, on a host with the first VIP.
func TestIdle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before, fault model.Fault
		want          bool
	}{
		{model.Fault{}, model.Fault{Kind: model.VIPRemove}, false},
		{model.Fault{}, model.Fault{Kind: model.VIPRemove, VIP: 2}, true},
		{model.Fault{}, model.Fault{Kind: model.LinkUp}, true},
		{model.Fault{Kind: model.LinkDown, Link: 1}, model.Fault{Kind: model.LinkUp, Link: 1}, false},
		{model.Fault{Kind: model.LinkDown, Link: 1}, model.Fault{Kind: model.LinkDown}, false},
		{model.Fault{Kind: model.IPv6Off}, model.Fault{Kind: model.IPv6Off}, true},
		{model.Fault{Kind: model.IPv6Off}, model.Fault{Kind: model.IPv6On}, false},
		{model.Fault{Kind: model.IPv6Off}, model.Fault{Kind: model.VIPAdd, VIP: 1}, true},
		{model.Fault{Kind: model.IPv6Off}, model.Fault{Kind: model.VIPAdd, VIP: 2}, false},
		{model.Fault{}, model.Fault{Kind: model.StateWritable}, true},
		{model.Fault{Kind: model.StateFull}, model.Fault{Kind: model.StateWritable}, false},
		{model.Fault{}, model.Fault{Kind: model.IngressMode}, true},
		{model.Fault{}, model.Fault{Kind: model.IngressMode, Mode: model.Silent}, false},
		{model.Fault{}, model.Fault{Kind: model.Stop}, false},
		{model.Fault{Kind: model.Stop}, model.Fault{Kind: model.Stop}, true},
		{model.Fault{Kind: model.SilentDNS}, model.Fault{Kind: model.SilentDNS}, true},
		{model.Fault{}, model.Fault{Kind: model.KillProxy}, false},
	} {
		m := model.New(network(), model.Paths{}, 0, start)
		m.Apply(model.Fault{Kind: model.VIPAdd}, true, start.Add(long))
		m.Apply(tc.before, true, start.Add(2*long))
		if got := m.Idle(tc.fault); got != tc.want {
			t.Errorf("%v after %v: %t", tc.fault, tc.before, got)
		}
	}
}

// TestStateFiles: what the state directory has after each sequence.
func TestStateFiles(t *testing.T) {
	t.Parallel()
	write := func(variant int) model.Fault {
		return model.Fault{Kind: model.FileWrite, File: model.ConfigYAML, Variant: variant}
	}
	cut := model.Fault{Kind: model.FileCut, File: model.ConfigYAML, N: 500}
	kind := func(k model.Kind) model.Fault { return model.Fault{Kind: k} }
	body := func(variant int) string { return network().ConfigFile(variant, "/k", "/c", "/e").Body }
	both := []string{body(0), body(1)}
	slices.Sort(both)
	for _, tc := range []struct {
		name      string
		faults    []model.Fault
		texts     []string
		absent    bool
		temporary int
	}{
		{"the first one", nil, []string{body(0)}, false, 0},
		{"the last one", []model.Fault{write(1)}, []string{body(1)}, false, 0},
		{"no file", []model.Fault{{Kind: model.FileRemove, File: model.ConfigYAML}}, []string{""}, false, 0},
		{"a rejected file", []model.Fault{write(1), cut}, both, true, 0},
		{"a rejected file, replaced", []model.Fault{cut, write(1)}, []string{body(1)}, false, 0},
		{"a full disk", []model.Fault{kind(model.StateFull), write(1), kind(model.StateWritable)}, both, true, 1},
		{"a kill", []model.Fault{kind(model.KillController)}, []string{body(0)}, false, 1},
		{"no descriptors", []model.Fault{write(1), {Kind: model.FewDescriptorsController, N: 1}}, both, true, 0},
		{"a stop", []model.Fault{write(1), kind(model.Stop)}, both, true, 0},
		{"a slow disk", []model.Fault{kind(model.SlowDisk), kind(model.Restart)}, []string{body(0)}, true, 2},
	} {
		m, now := model.New(network(), model.Paths{Keepalived: "/k", CA: "/c", Env: "/e"}, 0, start), start
		for _, f := range tc.faults {
			now = now.Add(long)
			m.Apply(f, true, now)
		}
		texts, absent := m.LastAccepted()
		if diff := cmp.Diff(tc.texts, texts); diff != "" || absent != tc.absent || m.CutWrites() != tc.temporary {
			t.Errorf("%s: absent %t, %d temporary files, (-want +got):\n%s", tc.name, absent, m.CutWrites(), diff)
		}
	}
}

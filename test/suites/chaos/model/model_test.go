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

// TestExpect: what must be true when all bounds passed.
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
	const standby = "port 8888, sets {}, VIPs {192.0.2.5 Standby, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 " +
		"Standby}, reason Standby, configuration file, metrics 0"
	held := func(reason, source string) string {
		return fmt.Sprintf(
			"port 8888, sets {192.0.2.5}, VIPs {192.0.2.5 Held, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 "+
				"Standby}, reason %s, configuration %s, metrics 0", reason, source)
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
		{"a VIP on two links, removed", []step{
			add(long, 0),
			{long, model.Fault{Kind: model.VIPAdd, Link: 1}},
			simple(long, model.VIPRemove, 0),
		}, []string{standby}},
		{"tentative", []step{{long, model.Fault{Kind: model.VIPTentative, VIP: 1}}}, []string{standby}},
		{"an even flap", []step{add(long, 0), simple(long, model.VIPFlap, 6)}, []string{standby}},
		{"an odd flap", []step{simple(long, model.VIPFlap, 7)}, []string{held("Serving", "file")}},
		{
			"IPv4 addresses stay on a link that is down",
			[]step{add(long, 0), add(long, 1), simple(long, model.LinkDown, 0)},
			[]string{held("Serving or UpstreamUnreachable", "file")},
		},
		{
			"no IPv6",
			[]step{add(long, 0), add(long, 1), simple(long, model.IPv6Off, 0), add(long, 3)},
			[]string{held("Serving", "file")},
		},
		{
			"an incomplete keepalived.conf",
			[]step{add(long, 0), file(long, model.FileCut, model.KeepalivedConf, 0, 700)},
			[]string{held("Serving", "file")},
		},
		{"the same at a start", []step{
			add(long, 0), file(long, model.FileCut, model.KeepalivedConf, 0, 700),
			simple(long, model.Restart, 0),
		}, []string{none("NoVIPs", "file")}},
		{
			"no keepalived.conf",
			[]step{add(long, 0), file(long, model.FileRemove, model.KeepalivedConf, 0, 0)},
			[]string{none("NotRequired", "file")},
		},
		{"a bad keepalived.conf after none", []step{
			add(long, 0), file(long, model.FileRemove, model.KeepalivedConf, 0, 0),
			file(long, model.FileHuge, model.KeepalivedConf, 0, 0),
		}, []string{none("NoVIPs", "file")}},
		{"a race: either file can be the last good one", []step{
			add(long, 0), file(long, model.FileWrite, model.KeepalivedConf, 3, 0), file(time.Second, model.FileLoop,
				model.KeepalivedConf, 0, 0),
		}, []string{
			"port 8888, sets {192.0.2.5}, VIPs {192.0.2.5 Held, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 " +
				"Standby}, reason Serving, configuration file, metrics 0",
			"port 8888, sets {}, VIPs {2001:db8::5 Standby}, reason Standby, configuration file, metrics 0",
		}},
		{"no race after the bound", []step{
			add(long, 0), file(long, model.FileWrite, model.KeepalivedConf, 3, 0),
			file(long, model.FileLoop, model.KeepalivedConf, 0, 0),
		}, []string{"port 8888, sets {}, VIPs {2001:db8::5 Standby}, reason Standby, configuration file, metrics 0"}},
		{
			"a rejected configuration",
			[]step{add(long, 0), file(long, model.FileCut, model.ConfigYAML, 2, 500)},
			[]string{held("InvalidConfig", "last-accepted")},
		},
		{"a race: the reload can find an empty file", []step{
			add(long, 0), simple(long, model.Reload, 0), file(time.Millisecond, model.FileCut, model.ConfigYAML, 2, 500),
		}, []string{
			none("InvalidConfig", "last-accepted"), held("InvalidConfig", "last-accepted"),
		}},
		{"the same over a restart", []step{
			add(long, 0), file(long, model.FileCut, model.ConfigYAML, 2, 500), simple(long, model.KillController, 0),
		}, []string{held("InvalidConfig", "last-accepted")}},
		{
			"an empty configuration",
			[]step{add(long, 0), file(long, model.FileCut, model.ConfigYAML, 0, 0)},
			[]string{none("NotRequired", "file")},
		},
		{
			"disabled",
			[]step{add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 2, 0)},
			[]string{none("Disabled", "file")},
		},
		{
			"an ingress VIP that is an API VIP",
			[]step{add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 5, 0)},
			[]string{
				"port 8888, sets {}, VIPs {192.0.2.5 NotRequired, 2001:db8::5 Standby}, reason Standby, configuration " +
					"file, metrics 0",
			},
		},
		{"the new port is in use: the old one stays", []step{
			add(long, 0), simple(long, model.PortTake, model.OtherPort), file(long, model.FileWrite, model.ConfigYAML, 1, 0),
		}, []string{held("PortInUse", "file")}},
		{"a controller without descriptors", []step{
			add(long, 0), file(long, model.FileWrite, model.ConfigYAML, 3, 0), simple(0, model.FewDescriptorsController, 600),
		}, []string{strings.Replace(held("Serving", "file"), "metrics 0", "metrics 9645", 1)}},
		{"the port is in use at a start", []step{
			simple(long, model.Stop, 0), simple(long, model.PortTake, model.DefaultPort), simple(long, model.Start, 0),
		}, []string{
			"port 0, sets {}, VIPs {192.0.2.5 Standby, 192.0.2.6 Standby, 2001:db8::5 Standby, 2001:db8::6 Standby}, reason " +
				"PortInUse, configuration file, metrics 0",
		}},
		{"stopped", []step{add(long, 0), simple(long, model.Stop, 0)}, []string{"stopped: no table, no socket"}},
		{
			"the ingress refuses connections",
			[]step{add(long, 0), {long, model.Fault{Kind: model.IngressMode, Mode: model.Refused}}},
			[]string{held("Serving or UpstreamUnreachable", "file")},
		},
		{
			"an exit of the proxy process",
			[]step{add(long, 0), simple(long, model.KillProxy, 0)},
			[]string{held("Serving or ProxyUnavailable", "file")},
		},
		{"pauses of the exporter and the prober process", []step{
			add(long, 0), simple(long, model.PauseExporter, 10_000), simple(0, model.PauseProber, 10_000),
		}, []string{held("Serving", "file")}},
		{"three exits", []step{
			add(long, 0), simple(long, model.KillProxy, 0), simple(time.Second, model.KillProxy, 0),
			simple(time.Second, model.KillProxy, 0),
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
		{
			"no keepalived.conf, and the requests in flight",
			model.Fault{Kind: model.FileRemove, File: model.KeepalivedConf},
			8 * time.Second,
		},
		{"a configuration", model.Fault{Kind: model.FileWrite, File: model.ConfigYAML, Variant: 3}, 1100 * time.Millisecond},
		{"a port that is free again", model.Fault{Kind: model.PortGive, N: 8888}, 5 * time.Second},
		{"a hanging proxy process", model.Fault{Kind: model.HangProxy}, 19100 * time.Millisecond},
		{
			"full connection tracking, and the service's own requests",
			model.Fault{Kind: model.ConntrackFull},
			11 * time.Second,
		},
		{"a controller that was stopped until now", model.Fault{Kind: model.PauseController, N: 10_000}, time.Second},
		{"a proxy process that was stopped until now", model.Fault{Kind: model.PauseProxy, N: 800}, time.Second},
	} {
		m, _ := expectations(step{long, tc.fault})
		if got := m.Due(start.Add(long)).Sub(start.Add(long)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestServes: when each request must be answered, whatever the service saw so far.
func TestServes(t *testing.T) {
	t.Parallel()
	vip := network().API[0]
	for _, tc := range []struct {
		name string
		step step
		want bool
	}{
		{"nothing", step{long, model.Fault{Kind: model.KillProber}}, true},
		{
			"an incomplete keepalived.conf",
			step{long, model.Fault{Kind: model.FileCut, File: model.KeepalivedConf, N: 700}},
			true,
		},
		{"a file without this VIP may be accepted", step{long, model.Fault{
			Kind: model.FileWrite, File: model.KeepalivedConf,
			Variant: 3,
		}}, false},
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
		if diff := cmp.Diff(tc.want, m.Cut(tc.fault, start.Add(2*long)),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.fault, diff)
		}
	}
}

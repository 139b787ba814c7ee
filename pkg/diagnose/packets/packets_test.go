// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestCheck: each end of a packet, and equal ones of several hosts and VIPs as one finding.
func TestCheck(t *testing.T) {
	t.Parallel()
	vip, vip6, other := netip.MustParseAddrPort("192.0.2.5:80"), netip.MustParseAddrPort("[2001:db8::5]:80"),
		netip.MustParseAddrPort("192.0.2.7:80")
	packet := func(client string, change func(*report.TracedPacket)) report.TracedPacket {
		p := report.TracedPacket{
			Client: netip.MustParseAddrPort(client), VIP: vip, End: report.TraceDelivered,
			TranslatedTo: 8888, Redirected: true,
		}
		change(&p)
		return p
	}
	input := report.TraceStep{Family: "inet", Table: "filter", Chain: "input", Hook: "input", Verdict: "drop", Port: 8888}
	dropped := func(p *report.TracedPacket) {
		p.End, p.Steps = report.TraceDropped, []report.TraceStep{input}
	}
	for name, tt := range map[string]struct {
		packets []report.TracedPacket
		ids     []findings.ID
		sources int
		text    string
	}{
		"nothing": {
			nil, nil, 0,
			"the requests of this host reach the service; during the trace, no other host sent a request",
		},
		"delivered": {
			[]report.TracedPacket{
				packet("192.0.2.11:1000", func(*report.TracedPacket) {}),
				packet("192.0.2.11:1000", func(p *report.TracedPacket) { p.Reply, p.End = true, report.TraceSent }),
			},
			nil, 0, "the packets of 192.0.2.11 reach the service, and the replies leave",
		},
		"dropped, of two hosts and families": {
			[]report.TracedPacket{
				packet("192.0.2.11:1000", dropped), packet("192.0.2.12:1000", dropped),
				packet("[2001:db8::11]:1000", func(p *report.TracedPacket) {
					dropped(p)
					p.VIP = vip6
				}),
			},
			[]findings.ID{findings.PacketDropped},
			3, "",
		},
		"reply": {[]report.TracedPacket{packet("192.0.2.11:1000", func(p *report.TracedPacket) {
			dropped(p)
			p.Reply = true
		})}, []findings.ID{findings.ReplyDropped}, 1, ""},
		"not redirected": {
			[]report.TracedPacket{packet("192.0.2.11:1000",
				func(p *report.TracedPacket) { p.TranslatedTo, p.Redirected = 0, false })},
			[]findings.ID{findings.PacketNotRedirected},
			1, "",
		},
		"the end of a connection, dropped": {[]report.TracedPacket{packet("192.0.2.11:1000", func(p *report.TracedPacket) {
			dropped(p)
			p.Flags = "FIN-ACK"
		})}, nil, 0, "the requests of this host reach the service; during the trace, no other host sent a request"},
		"lost, as a counter shows": {[]report.TracedPacket{packet("192.0.2.11:1000", func(p *report.TracedPacket) {
			p.End, p.Counters = report.TraceLost, []report.KernelCounter{{Name: "TcpExtIPReversePathFilter", Grown: 1}}
		})}, []findings.ID{findings.PacketLost}, 1, ""},
		"lost twice": {
			[]report.TracedPacket{
				packet("192.0.2.11:1000", func(p *report.TracedPacket) { p.End = report.TraceLost }),
				packet("192.0.2.11:1001", func(p *report.TracedPacket) { p.End = report.TraceLost }),
			},
			[]findings.ID{findings.PacketLost},
			1, "",
		},
		"events of one are missing": {
			[]report.TracedPacket{packet("192.0.2.11:1000", func(p *report.TracedPacket) {
				p.End, p.Counters = report.TraceLost, []report.KernelCounter{{Name: "TcpExtIPReversePathFilter", Grown: 1}}
			}), packet("192.0.2.11:1000", func(*report.TracedPacket) {})},
			nil, 0, "the packets of 192.0.2.11 reach the service",
		},
		"local": {[]report.TracedPacket{packet("192.0.2.5:1000", func(p *report.TracedPacket) {
			dropped(p)
			p.Local = true
		})}, []findings.ID{findings.LocalTrafficBlocked}, 0, ""},
		"to another host": {[]report.TracedPacket{packet("192.0.2.10:1000", func(p *report.TracedPacket) {
			dropped(p)
			p.VIP = other
		})}, []findings.ID{findings.VIPTestNotSent}, 1, ""},
		"delivered by another host": {
			[]report.TracedPacket{packet("192.0.2.10:1000",
				func(p *report.TracedPacket) { p.VIP, p.TranslatedTo, p.Redirected = other, 0, false })},
			nil, 0,
			"the requests of this host reach the service; during the trace, no other host sent a request",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Observation{Redirecting: true, Held: []netip.Addr{vip.Addr(), vip6.Addr()}, Packets: tt.packets}.Check()
			var ids []findings.ID
			sources := 0
			for _, f := range r.Findings {
				ids, sources = append(ids, f.ID), sources+len(f.Sources)
			}
			if diff := cmp.Diff(tt.ids, ids); diff != "" || sources != tt.sources || r.Text != tt.text {
				t.Errorf("%+v (-want +got):\n%s", r, diff)
			}
		})
	}
}

// TestLocal: packets of this host whose end no rule decided are no fault while its requests succeed.
func TestLocal(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddrPort("192.0.2.5:80")
	lost := report.TracedPacket{
		Client: netip.MustParseAddrPort("192.0.2.5:1000"), VIP: vip, Local: true,
		End: report.TraceLost, Message: "passed output, never reached the socket",
	}
	early := lost
	early.End = report.TraceDelivered
	stopped := Observation{Held: []netip.Addr{vip.Addr()}}
	if r := stopped.Check(); r.Text != "no rule of this host blocks its requests to the VIPs" {
		t.Errorf("a service that is stopped: %s", r.Text)
	}
	o := Observation{Redirecting: true, Held: []netip.Addr{vip.Addr()}, Packets: []report.TracedPacket{lost, lost, early}}
	found := o.Check().Findings
	if len(found) != 1 || found[0].ID != findings.LocalTrafficBlocked ||
		!strings.HasSuffix(found[0].Message, ": "+lost.Message) {
		t.Errorf("%+v", found)
	}
	o.Reached = o.Held
	if found := o.Check().Findings; len(found) > 0 {
		t.Errorf("although the VIP responds: %+v", found)
	}
}

// TestUnclear: a packet whose end was not observed does not show that the service is reached.
func TestUnclear(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddrPort("192.0.2.5:80")
	for name, p := range map[string]report.TracedPacket{
		"perhaps lost":             {End: report.TraceLost, Redirected: true, Message: "why"},
		"events are missing":       {End: report.TraceUnknown, Message: "why"},
		"taken by another program": {End: report.TraceUnknown, TranslatedTo: 8888, Redirected: true, Message: "why"},
	} {
		p.Client, p.VIP = netip.MustParseAddrPort("192.0.2.11:1000"), vip
		for count := range 3 {
			o := Observation{Redirecting: true, Held: []netip.Addr{vip.Addr()}}
			for range count + 1 {
				o.Packets = append(o.Packets, p)
			}
			if p.End == report.TraceLost && count > 0 {
				continue // a finding
			}
			r := o.Check()
			const text, why = "the requests of this host reach the service", "what became of the packets of 192.0.2.11: why"
			if !r.Incomplete || len(r.Findings) > 0 || r.Text != text || r.NotChecked != why {
				t.Errorf("%s, %d times: %+v", name, count+1, r)
			}
		}
	}
}

// TestValidation: while a challenge is open, packets of other clients than the testing hosts count.
func TestValidation(t *testing.T) {
	t.Parallel()
	vip, tester := netip.MustParseAddrPort("192.0.2.5:80"), netip.MustParseAddr("192.0.2.11")
	delivered := func(client string) report.TracedPacket {
		return report.TracedPacket{
			Client: netip.MustParseAddrPort(client), VIP: vip, End: report.TraceDelivered,
			Redirected: true,
		}
	}
	o := Observation{Redirecting: true, Held: []netip.Addr{vip.Addr()}, Testers: []netip.Addr{tester}, Validation: true}
	o.Packets = []report.TracedPacket{delivered("192.0.2.11:1000")}
	want := "the packets of 192.0.2.11 reach the service"
	if r := o.Check(); r.Text != want+"; no packet of another client, such as a CA, arrived meanwhile" {
		t.Errorf("%+v", r)
	}
	o.Packets = append(o.Packets, delivered("203.0.113.9:1000"))
	if r := o.Check(); r.Text != "the packets of 192.0.2.11 and 203.0.113.9 reach the service" {
		t.Errorf("%+v", r)
	}
}

// TestNotes: rules that nothing here can meet are a note, and hosts that did not test the
// VIP again are not checked.
func TestNotes(t *testing.T) {
	t.Parallel()
	held := []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	r := Observation{Redirecting: true, Held: held, Rules: "not tested from here: a rule"}.Check()
	if r.Outcome != report.CheckOK || r.Incomplete ||
		r.Text != "the requests of this host reach the service; during the trace, no other host sent a request; not "+
			"tested from here: a rule" {
		t.Errorf("%+v", r)
	}
	r = Observation{Missing: []netip.Addr{netip.MustParseAddr("192.0.2.11")}, RulesErr: errors.New("no nft")}.Check()
	if !r.Incomplete ||
		r.NotChecked != "192.0.2.11 tested the VIP within the last minute, but no request from there arrived during the "+
			"trace; which rules depend on the client's address: no nft" {
		t.Errorf("%+v", r)
	}
}

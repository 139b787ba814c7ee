// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// tracedRequest is a SYN that a chain of the host drops after the redirect.
func tracedRequest() report.TracedPacket {
	return report.TracedPacket{
		Time: start.Add(123456 * time.Microsecond), Client: netip.MustParseAddrPort("203.0.113.9:40000"),
		VIP:   netip.MustParseAddrPort("192.0.2.5:80"),
		Flags: "SYN", TranslatedTo: 8888, Redirected: true, End: report.TraceDropped,
		Message: "dropped at port 8888 in chain inet filter ports: tcp dport 8888 drop (handle 9)",
		Fix:     "nft insert rule inet filter input tcp dport 8888 accept",
		Steps: []report.TraceStep{
			{
				Device: "eth0", Family: "inet", Table: "http01-trace-7", Chain: "prerouting", Hook: "prerouting", Priority: -500,
				Verdict: "accept", Port: 80,
			},
			{
				Device: "eth0", Family: "ip", Table: "raw", Chain: "PREROUTING", Hook: "prerouting", Priority: -300,
				Verdict: "accept", Port: 80,
			},
			{
				Device: "eth0", Family: "inet", Table: "http01-proxyd", Chain: "prerouting", Hook: "prerouting", Priority: -110,
				Own: true, RuleChain: "prerouting", Handle: 5, Rule: "dnat to :8888", Verdict: "accept", Port: 80,
			},
			{
				Device: "eth0", Family: "inet", Table: "filter", Chain: "input", Hook: "input", RuleChain: "ports", Handle: 9,
				Rule: "tcp dport 8888 drop", Verdict: "drop", Port: 8888,
			},
		},
	}
}

// TestWriteTrace: the text of each end, within 80 columns.
func TestWriteTrace(t *testing.T) {
	t.Parallel()
	delivered := tracedRequest()
	delivered.End, delivered.Message, delivered.Fix = report.TraceDelivered, "delivered to the proxy at port 8888", ""
	delivered.Steps = delivered.Steps[:3]
	reply := report.TracedPacket{
		Time: start.Add(time.Second), Client: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:40000"),
		VIP:   netip.MustParseAddrPort("[2001:db8::5]:80"),
		Reply: true, Flags: "SYN-ACK", End: report.TraceSent, Message: "sent by eth0",
		Steps: []report.TraceStep{
			{Device: "eth0", Family: "inet", Table: "filter", Chain: "output", Hook: "output", Verdict: "accept", Port: 8888},
			{
				Device: "eth0", Family: "ip6", Table: "nat", Chain: "POSTROUTING", Hook: "postrouting", Priority: 100,
				Verdict: "accept", Port: 80,
			},
		},
	}
	lost := report.TracedPacket{
		Time: start, Client: netip.MustParseAddrPort("203.0.113.9:40001"), VIP: netip.MustParseAddrPort("192.0.2.5:80"),
		Flags: "SYN", Local: true, End: report.TraceLost,
		Message: "passed prerouting, and never reached input",
	}
	policy := tracedRequest()
	policy.Message = "dropped"
	policy.Steps = []report.TraceStep{{
		Device: "br0", Family: "ip", Table: "fil\x1bter", Chain: "INPUT", Hook: "input",
		Verdict: "drop", Port: 8888,
	}}
	const head = "Trace:          port 80 of 192.0.2.5 on master0, 2.5 s\nDevices:        eth0 (vip), bond0 (bond)\n"
	for name, tt := range map[string]struct {
		packets []report.TracedPacket
		lost    uint64
		message string
		wide    bool
		want    string
	}{
		"a request that is dropped, twice": {
			[]report.TracedPacket{tracedRequest(), tracedRequest()},
			3, "", false,
			strings.Repeat(`
03:04:05.123456  SYN to 192.0.2.5:80
Arrival:        eth0, from 203.0.113.9:40000
Prerouting:     ip raw PREROUTING  accept
Translation:    port 80 to port 8888
Input:          inet filter input  drop
End:            ✗ dropped at port 8888 in chain inet filter ports: tcp dport
                  8888 drop (handle 9)
`, 2) + `
Result:         ✗ 2 of 2 packets were dropped, lost or not redirected on this
                  host
Note:           ! the kernel dropped 3 events, because there were too many
Fix:            nft insert rule inet filter input tcp dport 8888 accept
`,
		},
		"a request that is delivered, and a reply": {
			[]report.TracedPacket{delivered, reply}, 0, "", false, `
03:04:05.123456  SYN to 192.0.2.5:80
Arrival:        eth0, from 203.0.113.9:40000
Prerouting:     ip raw PREROUTING  accept
Translation:    port 80 to port 8888
End:            ✓ delivered to the proxy at port 8888

03:04:06.000000  SYN-ACK from [2001:db8::5]:80
Reply to:       [2001:db8:1111:2222:3333:4444:5555:6666]:40000
Output:         inet filter output   accept
Translation:    port 8888 to port 80
Postrouting:    ip6 nat POSTROUTING  accept
End:            ✓ sent by eth0

Result:         ✓ no packet was dropped, lost or not redirected (2 traced)
`,
		},
		"a request that is lost": {
			[]report.TracedPacket{lost}, 0, "the trace ended early: no", false, `
03:04:05.000000  SYN to 192.0.2.5:80
Arrival:        this host, from 203.0.113.9:40001
End:            ✗ passed prerouting, and never reached input

Result:         ✗ 1 of 1 packets were dropped, lost or not redirected on this
                  host
Note:           ! the trace ended early: no
`,
		},
		"a name that is not printable": {
			[]report.TracedPacket{policy}, 0, "", false, `
03:04:05.123456  SYN to 192.0.2.5:80
Arrival:        br0, from 203.0.113.9:40000
Translation:    port 80 to port 8888
Input:          ip fil ter INPUT  drop
End:            ✗ dropped

Result:         ✗ 1 of 1 packets were dropped, lost or not redirected on this
                  host
Fix:            nft insert rule inet filter input tcp dport 8888 accept
`,
		},
		"nothing": {
			nil, 0, "nothing arrived from outside: dropped before the host, by XDP, tc or the network", false, `
Result:         ! nothing arrived from outside: dropped before the host, by XDP,
                  tc or the network
`,
		},
		"wide": {
			[]report.TracedPacket{delivered}, 0, "", true, `
03:04:05.123456  SYN to 192.0.2.5:80
Arrival:        eth0, from 203.0.113.9:40000
Prerouting:     inet http01-trace-7 prerouting  accept  priority -500
Prerouting:     ip raw PREROUTING               accept  priority -300
Prerouting:     inet http01-proxyd prerouting   accept  priority -110  prerouting handle 5  dnat to :8888
Translation:    port 80 to port 8888
End:            ✓ delivered to the proxy at port 8888

Result:         ✓ no packet was dropped, lost or not redirected (1 traced)
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.Trace{
				Host: "master0", DurationMs: 2500, VIPs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}, Packets: tt.packets,
				Lost: tt.lost, Message: tt.message,
				Devices: []report.TracedDevice{{Name: "eth0", Index: 2, Kind: "vip"}, {Name: "bond0", Index: 3, Kind: "bond"}},
			}
			view := terminal.View{Width: 80, Wide: tt.wide}
			if tt.wide {
				view.Width = 0
			}
			var out strings.Builder
			if err := terminal.Trace(r).Write(&out, view); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(head+tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for line := range strings.Lines(out.String()) {
				if utf8.RuneCountInString(line) > 81 && !tt.wide {
					t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
				}
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"time"
)

// Trace is what `http01-proxyd trace` observed on one host.
type Trace struct {
	Header

	Host       string         `json:"host"`
	Time       time.Time      `json:"time"` // of the start: UTC, in whole seconds
	DurationMs float64        `json:"durationMs"`
	VIPs       []netip.Addr   `json:"vips"`              // whose port 80 was traced
	Devices    []TracedDevice `json:"devices"`           // at whose ingress packets were traced
	Packets    []TracedPacket `json:"packets"`           // oldest first
	Lost       uint64         `json:"lost"`              // events that the kernel dropped because there were too many
	Message    string         `json:"message,omitempty"` // why there is no packet, or why the trace ended early
}

// TracedDevice is a network device of this host by which packets for a VIP arrive.
type TracedDevice struct {
	Name  string `json:"name"`
	Index uint32 `json:"index"`
	Kind  string `json:"kind"` // of its driver, such as bond, vlan, bridge, openvswitch or veth; device for hardware
}

// TraceEnd is the end of a packet's path on this host. The set of values is fixed.
type TraceEnd string

// The ends of a path.
const (
	TraceDelivered TraceEnd = "delivered" // to a socket of this host
	TraceSent      TraceEnd = "sent"      // a reply that left this host
	TraceDropped   TraceEnd = "dropped"   // by a rule or the policy of a chain
	TraceForwarded TraceEnd = "forwarded" // to another host
	TraceLost      TraceEnd = "lost"      // between two hooks, or in the queue of the listening socket
	TraceUnknown   TraceEnd = "unknown"   // events are missing
)

// TracedPacket is one packet and its path through this host.
type TracedPacket struct {
	Time   time.Time      `json:"time"`   // UTC, in microseconds
	Client netip.AddrPort `json:"client"` // the other end of the connection
	VIP    netip.AddrPort `json:"vip"`    // with the port that the client uses
	Reply  bool           `json:"reply"`  // from the VIP to the client
	Local  bool           `json:"local"`  // of this host itself
	Flags  string         `json:"flags"`  // of TCP, such as SYN or SYN-ACK
	Steps  []TraceStep    `json:"steps"`
	End    TraceEnd       `json:"end"`
	// TranslatedTo is the destination port after the translation; 0: not translated.
	TranslatedTo uint16 `json:"translatedTo,omitempty"`
	Redirected   bool   `json:"redirected"` // to the port of the service
	// Counters are those of the kernel that grew while a packet was lost.
	Counters []KernelCounter `json:"counters"`
	Message  string          `json:"message"` // the end in a sentence
	// Fix is a command that lets packets like a dropped one pass until the rules are loaded
	// again.
	Fix string `json:"fix,omitempty"`
}

// Failed reports whether this host kept the packet from the service, or a reply from the
// client.
func (p TracedPacket) Failed() bool {
	switch p.End {
	case TraceDropped, TraceLost, TraceForwarded:
		return true
	case TraceDelivered: // to another program, or to none
		return !p.Reply && !p.Redirected
	case TraceSent, TraceUnknown:
	}
	return false
}

// TraceStep is the verdict of one base chain.
type TraceStep struct {
	Device   string `json:"device,omitempty"` // by which the packet arrives or leaves at this hook
	Family   string `json:"family"`           // of the table: ip, ip6, inet, netdev, bridge or arp
	Table    string `json:"table"`
	Chain    string `json:"chain"` // the base chain
	Hook     string `json:"hook"`  // ingress, prerouting, input, output, postrouting, egress
	Priority int    `json:"priority"`
	Own      bool   `json:"own"` // a chain of the service
	// RuleChain and Handle identify the rule that decided; the handle is 0 if the policy did.
	RuleChain string `json:"ruleChain,omitempty"`
	Handle    uint64 `json:"handle,omitempty"`
	Rule      string `json:"rule,omitempty"` // in nft syntax; empty if nft is not installed
	Verdict   string `json:"verdict"`        // accept, drop, or another one of nft
	// Port is the destination port that a request has here, or the source port of a reply.
	Port uint16 `json:"port"`
	// Passed are rules that matched and did not decide, oldest first, at most MaxPassedRules.
	Passed []TraceRule `json:"passed,omitempty"`
}

// MaxPassedRules bounds the rules of a step that did not decide.
const MaxPassedRules = 16

// TraceRule is a rule that a packet has matched.
type TraceRule struct {
	Chain  string `json:"chain"`
	Handle uint64 `json:"handle"`
	Rule   string `json:"rule,omitempty"` // in nft syntax
}

// KernelCounter is a counter of the kernel that grew.
type KernelCounter struct {
	Name    string `json:"name"` // as in /proc/net/netstat or /proc/net/snmp, such as TcpExtIPReversePathFilter
	Grown   uint64 `json:"grown"`
	Meaning string `json:"meaning"`
}

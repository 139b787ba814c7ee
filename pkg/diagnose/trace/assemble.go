// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// settleTime is how long no event of a packet arrives until its path counts as complete: the
	// kernel handles a packet within microseconds, and sends its events meanwhile.
	settleTime = 200 * time.Millisecond
	// maxPackets bounds the packets whose path is not complete yet.
	maxPackets = 512
	// maxSteps bounds the base chains of one packet.
	maxSteps = 64
	// maxDevices bounds the names of devices that are kept.
	maxDevices = 1024
)

// assembler joins the events of the kernel to the paths of packets. Each base chain begins with
// an event that contains the packet's headers. An address translation changes them, and the
// kernel's number of the packet. Only the client's address and port and TCP's sequence number
// stay the same.
type assembler struct {
	vips     []netip.Addr // held ones and others
	port     uint16       // of the service
	chains   map[chainKey]chainInfo
	ruleset  uint32            // the ID of that which the packets of the next events met; 0: not known
	devices  map[uint32]string // names
	packets  []*path
	byNumber map[uint32]*path // the path to which the last events of a number belong
}

func newAssembler(vips []netip.Addr, port uint16) assembler {
	return assembler{vips: vips, port: port, devices: make(map[uint32]string), byNumber: make(map[uint32]*path)}
}

// path is a packet whose path may not be complete.
type path struct {
	report.TracedPacket

	key      packetKey
	ruleset  uint32 // the ID of that which the packet met; 0: not known
	updated  time.Time
	reached  map[string]bool  // hooks and marker chains
	jump     report.TraceRule // the last jump in the current base chain
	answered bool             // a reply to the client was traced since
}

// anonymousChain begins the names of chains without a name (NFT_CHAIN_BINDING, nf_tables_addchain).
const anonymousChain = "__chain"

// packetKey identifies a packet on its path through this host.
type packetKey struct {
	client   netip.AddrPort
	reply    bool
	sequence uint32
	flags    uint8
}

// add adds events.
func (a *assembler) add(records []protocol.TraceRecord, now time.Time) {
	for i := range records {
		a.addRecord(&records[i], now)
	}
}

func (a *assembler) addRecord(r *protocol.TraceRecord, now time.Time) {
	if r.Header != nil {
		a.beginStep(r, now)
	}
	p := a.byNumber[r.Packet]
	if p == nil || len(p.Steps) == 0 {
		return
	}
	p.updated = now
	step := &p.Steps[len(p.Steps)-1]
	key := chainKey{r.Family, r.Table, r.Chain}
	info, known := a.chains[key]
	name := r.Chain
	if !known { // it may be a name that the prober process made up
		name = "unknown"
	}
	switch {
	case r.Kind == protocol.TracePolicy:
		step.Verdict = verdictName(r.Verdict)
	case r.Kind == protocol.TraceRule && isFinal(r.Verdict):
		step.Verdict, step.RuleChain, step.Handle = verdictName(r.Verdict), name, r.Handle
		if strings.HasPrefix(name, anonymousChain) && p.jump.Handle != 0 { // nft lists it within the rule that jumps to it
			step.RuleChain, step.Handle = p.jump.Chain, p.jump.Handle
		}
	case r.Kind == protocol.TraceRule && (r.Verdict == protocol.VerdictJump || r.Verdict == protocol.VerdictGoto):
		p.jump = report.TraceRule{Chain: name, Handle: r.Handle}
	case r.Kind == protocol.TraceRule && r.Verdict == protocol.VerdictContinue && r.Handle != 0 && !step.Own &&
		len(step.Passed) < report.MaxPassedRules:
		step.Passed = append(step.Passed, report.TraceRule{Chain: name, Handle: r.Handle})
	}
	if info.hook != "" {
		p.reached[info.hook] = true
	}
	if isOwn(r.Table) && known {
		p.reached[r.Chain] = true
	}
	if step.Verdict == verdictName(protocol.VerdictDrop) {
		p.End = report.TraceDropped
	}
}

// beginStep adds a base chain to the path of a packet, or begins a path.
func (a *assembler) beginStep(r *protocol.TraceRecord, now time.Time) {
	info, known := a.chains[chainKey{r.Family, r.Table, r.Chain}]
	step := report.TraceStep{
		Family: familyName(r.Family), Table: "unknown", Chain: "unknown", Hook: "unknown",
		Own: isOwn(r.Table) || r.Table == ownTable,
	}
	if known {
		step.Table, step.Chain, step.Hook, step.Priority = r.Table, r.Chain, info.hook, info.priority
	}
	p := a.find(r, now)
	if p == nil || len(p.Steps) >= maxSteps {
		delete(a.byNumber, r.Packet)
		return
	}
	a.byNumber[r.Packet] = p
	step.Port = r.Header.Destination.Port()
	if p.Reply {
		step.Port = r.Header.Source.Port()
	}
	index := r.In
	if index == 0 || step.Hook == output || step.Hook == postrouting || step.Hook == egress {
		index = r.Out
	}
	step.Device = a.deviceName(index)
	p.Local = p.Local || index == loopbackIndex
	if !p.Reply && step.Port != p.VIP.Port() {
		p.TranslatedTo, p.Redirected = step.Port, step.Port == a.port
	}
	p.Steps, p.jump = append(p.Steps, step), report.TraceRule{}
}

// deviceName returns the name of a device of this host. The kernel lists all devices for each
// name, so names are kept.
func (a *assembler) deviceName(index uint32) string {
	name, known := a.devices[index]
	switch {
	case index == 0 || known:
		return name
	case len(a.devices) == maxDevices: // of a prober process that makes them up
		return fmt.Sprintf("device %d", index)
	}
	name = fmt.Sprintf("device %d", index)
	if link, err := net.InterfaceByIndex(int(index)); err == nil {
		name = link.Name
	}
	a.devices[index] = name
	return name
}

// find returns the path of the packet to which the first event of a base chain belongs, or a
// new one; nil for a packet that is not traced.
func (a *assembler) find(r *protocol.TraceRecord, now time.Time) *path {
	h := r.Header
	keys := []packetKey{{h.Source, false, h.Sequence, h.Flags}, {h.Destination, true, h.Sequence, h.Flags}}
	for _, p := range slices.Backward(a.packets) {
		if slices.Contains(keys, p.key) && p.End == "" && !p.passed(r) {
			return p
		}
	}
	p := &path{
		updated: now, reached: make(map[string]bool),
		TracedPacket: report.TracedPacket{
			Time: now.UTC().Truncate(time.Microsecond), Flags: flagNames(h.Flags), Counters: []report.KernelCounter{},
		},
	}
	switch {
	case len(a.packets) >= maxPackets:
		return nil
	case slices.Contains(a.vips, h.Destination.Addr()) && h.Destination.Port() == webPort:
		p.Client, p.VIP = h.Source, h.Destination
	case slices.Contains(a.vips, h.Source.Addr()):
		p.Client, p.VIP, p.Reply = h.Destination, netip.AddrPortFrom(h.Source.Addr(), webPort), true
	default:
		return nil
	}
	p.ruleset, p.key = a.ruleset, packetKey{p.Client, p.Reply, h.Sequence, h.Flags}
	for _, other := range a.packets {
		other.answered = other.answered || p.Reply && other.VIP == p.VIP && other.Client == p.Client
	}
	a.packets = append(a.packets, p)
	return p
}

// passed reports whether a path was in this base chain already: the same packet is sent
// again then.
func (p *path) passed(r *protocol.TraceRecord) bool {
	return slices.ContainsFunc(p.Steps, func(s report.TraceStep) bool {
		return s.Table == r.Table && s.Chain == r.Chain && s.Family == familyName(r.Family)
	})
}

// complete removes and returns the packets of which no event arrived for a while, oldest
// first. All events until read were added.
func (a *assembler) complete(read time.Time) (all []*path) {
	a.packets = slices.DeleteFunc(a.packets, func(p *path) bool {
		if read.Sub(p.updated) < settleTime {
			return false
		}
		p.finish()
		all = append(all, p)
		for number, other := range a.byNumber {
			if other == p {
				delete(a.byNumber, number)
			}
		}
		return true
	})
	return all
}

// finish determines the end of a path.
func (p *path) finish() {
	undecided := slices.ContainsFunc(p.Steps, func(s report.TraceStep) bool { return s.Verdict == "" })
	_, taken := p.taker()
	switch {
	case p.End == report.TraceDropped:
	case !p.leaves() && p.reached[inputLast]:
		p.End = report.TraceDelivered
	case p.leaves() && p.reached[postroutingLast]:
		p.End = report.TraceSent
	case p.reached[forward]:
		p.End = report.TraceForwarded
	case undecided, taken:
		p.End = report.TraceUnknown
	default:
		p.End = report.TraceLost
	}
	p.Message = p.describeEnd()
}

// taker returns the step whose rule passed the packet to another program.
func (p *path) taker() (step report.TraceStep, taken bool) {
	i := slices.IndexFunc(p.Steps, func(s report.TraceStep) bool {
		return s.Verdict == verdictName(protocol.VerdictQueue) || s.Verdict == verdictName(protocol.VerdictStolen)
	})
	if i < 0 {
		return report.TraceStep{}, false
	}
	return p.Steps[i], true
}

// isSilent reports whether the service's socket got the first packet of a client, but no reply
// was traced.
func (p *path) isSilent() bool {
	return p.End == report.TraceDelivered && p.Redirected && !p.Local && p.Flags == "SYN" && !p.answered
}

// leaves reports whether the packet is to leave this host.
func (p *path) leaves() bool { return p.Steps[0].Hook == output && !p.Local }

// describeEnd returns the end of a path in a sentence, without counters.
func (p *path) describeEnd() string {
	last := p.Steps[len(p.Steps)-1]
	switch p.End {
	case report.TraceDelivered:
		if p.Failed() {
			return fmt.Sprintf("delivered to port %d of this host: not redirected to the service", last.Port)
		}
		return fmt.Sprintf("delivered to port %d", last.Port)
	case report.TraceSent:
		return "sent by " + last.Device
	case report.TraceDropped:
		step, _ := Deciding(p.TracedPacket)
		return fmt.Sprintf("dropped at port %d in chain %s", step.Port, ChainName(step))
	case report.TraceForwarded:
		return "forwarded to another host: not redirected to the service"
	case report.TraceLost:
		return fmt.Sprintf("passed %s, never reached %s", last.Hook, nextHook(last.Hook, p.leaves()))
	case report.TraceUnknown:
		if step, taken := p.taker(); taken {
			return fmt.Sprintf("passed to another program in chain %s, which has not returned it", ChainName(step))
		}
	}
	return "events are missing"
}

// nextHook returns what follows a hook on the path of a packet.
func nextHook(hook string, leaves bool) string {
	switch {
	case hook == ingress:
		return prerouting
	case hook == prerouting:
		return input
	case hook == output && leaves:
		return postrouting
	case hook == input:
		return "the socket"
	default:
		return "the network"
	}
}

// Deciding returns the step that decided the end of a packet: the drop or, for a packet that
// was not redirected, the step whose rule translated or untracked it. decided is false if no
// rule or policy did.
func Deciding(p report.TracedPacket) (step report.TraceStep, decided bool) {
	for _, s := range slices.Backward(p.Steps) {
		if p.End == report.TraceDropped && s.Verdict == verdictName(protocol.VerdictDrop) {
			return s, true
		}
	}
	for _, s := range p.Steps {
		if s.Own {
			continue
		}
		for _, rule := range s.Passed {
			if hasWord(rule.Rule, "notrack") {
				s.RuleChain, s.Handle, s.Rule = rule.Chain, rule.Handle, rule.Rule
				return s, true
			}
		}
		if s.Handle != 0 && (s.Hook == prerouting || s.Hook == output) &&
			hasWord(s.Rule, "dnat", "redirect", "tproxy", "DNAT", "REDIRECT", "TPROXY") {
			return s, true
		}
	}
	return report.TraceStep{}, false
}

// freeText matches the parts of a rule in nft syntax that may contain any words.
var freeText = regexp.MustCompile(`(comment|prefix) "[^"]*"`)

// hasWord reports whether nft's text of a rule contains one of the words. The targets of
// iptables are in upper case.
func hasWord(rule string, words ...string) bool {
	return slices.ContainsFunc(strings.Fields(freeText.ReplaceAllString(rule, "")), func(field string) bool {
		return slices.Contains(words, strings.Trim(field, `"`))
	})
}

// isFinal reports whether a verdict ends the traversal of a base chain.
func isFinal(verdict int32) bool { return verdict >= protocol.VerdictDrop }

// verdictName returns nft's name of a verdict.
func verdictName(verdict int32) string {
	switch verdict {
	case protocol.VerdictDrop:
		return "drop"
	case protocol.VerdictAccept:
		return "accept"
	case protocol.VerdictStolen:
		return "stolen"
	case protocol.VerdictQueue:
		return "queue"
	default:
		return "other"
	}
}

// flagNames returns the flags of a TCP header, such as SYN-ACK.
func flagNames(flags uint8) string {
	var names []string
	for i, name := range []string{"FIN", "SYN", "RST", "PSH", "ACK"} {
		if flags&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "-")
}

// ownTable is the table of the service.
const ownTable = "http01-proxyd"

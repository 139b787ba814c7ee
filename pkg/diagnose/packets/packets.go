// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trace"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Observation is what a trace on this host showed.
type Observation struct {
	Held []netip.Addr // API VIPs of this host
	Port uint16       // the internal port of the service
	// Redirecting: the service's table exists. Without it, other checks report why.
	Redirecting bool
	Reached     []netip.Addr // VIPs of this host where its own request got the response of the service
	Packets     []report.TracedPacket
	Testers     []netip.Addr // hosts that tested a VIP within the last minute
	Validation  bool         // a challenge is open, so that a CA may send packets
	Missing     []netip.Addr // hosts that tested a VIP within the last minute, but not during the trace
	Rules       string       // the rules that depend on the client's address; empty: none
	RulesErr    error        // why these are not known
	Err         error        // why the trace ended early
}

// served lists the other hosts whose packets reached the service, and reports whether the replies to
// all of them left this host.
func (o Observation) served() (sources []netip.Addr, replied bool) {
	answered := make(map[netip.Addr]bool)
	for _, p := range o.Packets {
		source := p.Client.Addr()
		switch {
		case p.Local || !slices.Contains(o.Held, p.VIP.Addr()):
		case p.Reply && p.End == report.TraceSent:
			answered[source] = true
		case !p.Reply && p.Redirected && p.End == report.TraceDelivered && !slices.Contains(sources, source):
			sources = append(sources, source)
		}
	}
	slices.SortFunc(sources, netip.Addr.Compare)
	return sources, !slices.ContainsFunc(sources, func(source netip.Addr) bool { return !answered[source] })
}

// unclear returns what is known of the packets of other hosts that arrived, and of which the trace
// shows neither that they reached the service nor what prevented it.
func (o Observation) unclear(served []netip.Addr) (all []string) {
	seen := slices.Clone(served)
	for _, p := range o.Packets {
		source := p.Client.Addr()
		if !o.Redirecting || p.Reply || p.Local || isEnd(p) || !slices.Contains(o.Held, p.VIP.Addr()) ||
			slices.Contains(seen, source) || len(all) == maxSources {
			continue
		}
		seen = append(seen, source)
		obstacle := func(other report.TracedPacket) bool { return other.Client.Addr() == source && o.judge(other) != "" }
		if !slices.ContainsFunc(o.Packets, obstacle) {
			all = append(all, fmt.Sprintf("what became of the packets of %v: %s", source, p.Message))
		}
	}
	return all
}

// Check returns a finding for each rule, or other cause, that kept a packet from its
// destination.
func (o Observation) Check() result.Result {
	var all obstacles
	for _, p := range o.Packets {
		if id := o.judge(p); id != "" {
			all.add(id, p)
		}
	}
	served, replied := o.served()
	notChecked := o.unclear(served)
	text := "no rule of this host blocks its requests to the VIPs" // the self check shows whether they are answered
	if len(o.Held) > 0 && o.Redirecting {
		text = "the requests of this host reach the service"
		if len(served) == 0 && len(notChecked) == 0 {
			text += "; during the trace, no other host sent a request"
		}
		if len(served) > 0 {
			text = fmt.Sprintf("the packets of %s reach the service", result.JoinAddresses(served))
		}
		if len(served) > 0 && replied {
			text += ", and the replies leave"
		}
	}
	isOther := func(source netip.Addr) bool { return !slices.Contains(o.Testers, source) }
	if o.Validation && !slices.ContainsFunc(served, isOther) {
		text += "; no packet of another client, such as a CA, arrived meanwhile"
	}
	if o.Rules != "" {
		text += "; " + o.Rules
	}
	if len(o.Missing) > 0 {
		notChecked = append(notChecked, result.JoinAddresses(o.Missing)+
			" tested the VIP within the last minute, but no request from there arrived during the trace")
	}
	if o.Err != nil {
		notChecked = append(notChecked, o.Err.Error())
	}
	if o.RulesErr != nil {
		notChecked = append(notChecked, fmt.Sprintf("which rules depend on the client's address: %v", o.RulesErr))
	}
	return result.PassUnless(all.findings(o.Port), "%s", text).WithNotChecked(strings.Join(notChecked, "; "))
}

// judge returns the finding that a packet shows; empty for no fault. The end of a connection
// shows no fault: firewalls rightly drop what arrives after it.
func (o Observation) judge(p report.TracedPacket) findings.ID {
	held := slices.Contains(o.Held, p.VIP.Addr())
	dropped, lost := p.End == report.TraceDropped, p.End == report.TraceLost
	_, decided := trace.Deciding(p)
	switch {
	case lost && !decided && !o.isLost(p):
		return "" // a slow host can miss the rest of the events
	case !p.Failed(), !dropped && !lost && !o.Redirecting, isEnd(p):
		return ""
	case !held && (dropped || lost):
		return findings.VIPTestNotSent
	case !held:
		return ""
	case p.Local && !dropped && !decided && slices.Contains(o.Reached, p.VIP.Addr()):
		return "" // a slow host missed events, or the packet came before the rule for a new VIP
	case p.Local:
		return findings.LocalTrafficBlocked
	case !p.Reply && !p.Redirected && !dropped && (!lost || decided):
		return findings.PacketNotRedirected
	case lost:
		return findings.PacketLost
	case p.Reply:
		return findings.ReplyDropped
	default:
		return findings.PacketDropped
	}
}

// isEnd reports whether a packet ends a connection.
func isEnd(p report.TracedPacket) bool {
	return strings.Contains(p.Flags, "FIN") || strings.Contains(p.Flags, "RST")
}

// isLost reports whether a packet was lost, and not only its events: a counter of the kernel
// grew, or a second packet of the host was lost, and no packet of the connection came through.
func (o Observation) isLost(p report.TracedPacket) bool {
	losses := 0
	for _, other := range o.Packets {
		same := other.Reply == p.Reply && other.VIP == p.VIP
		if same && other.Client == p.Client && (other.End == report.TraceDelivered || other.End == report.TraceSent) {
			return false
		}
		if same && other.Client.Addr() == p.Client.Addr() && other.End == report.TraceLost {
			losses++
		}
	}
	return len(p.Counters) > 0 || losses > 1
}

// obstacle is what kept the packets of some hosts from their destination.
type obstacle struct {
	id      findings.ID
	sources []netip.Addr
	vips    []netip.Addr
	packet  report.TracedPacket // the first one
}

// hasCause reports whether the same rule or policy decided, at the same port, or none did.
func (o obstacle) hasCause(step report.TraceStep, decided bool) bool {
	own, known := trace.Deciding(o.packet)
	return known == decided && trace.ChainName(own) == trace.ChainName(step) && own.Chain == step.Chain &&
		own.Handle == step.Handle && own.Port == step.Port
}

// explains reports whether a rule kept packets of the same hosts to the same VIPs from the service.
func (o obstacle) explains(other obstacle) bool {
	_, decided := trace.Deciding(o.packet)
	missing := func(of, in []netip.Addr) bool {
		return slices.ContainsFunc(of, func(a netip.Addr) bool { return !slices.Contains(in, a) })
	}
	return decided && o.id == other.id && !missing(other.sources, o.sources) && !missing(other.vips, o.vips)
}

// reversePathLink returns the link on which reverse path filtering dropped a packet, as sysctl names it,
// or "".
func reversePathLink(p report.TracedPacket) string {
	filtered := slices.ContainsFunc(p.Counters, func(c report.KernelCounter) bool {
		return strings.HasSuffix(c.Name, "IPReversePathFilter")
	})
	if !filtered || len(p.Steps) == 0 {
		return ""
	}
	return strings.ReplaceAll(p.Steps[len(p.Steps)-1].Device, ".", "/")
}

// maxSources bounds the hosts of an obstacle. A node with fewer cannot be missing for them.
const maxSources = 16

// obstacles contains each obstacle once.
type obstacles []obstacle

func (all *obstacles) add(id findings.ID, p report.TracedPacket) {
	step, decided := trace.Deciding(p)
	i := slices.IndexFunc(*all, func(o obstacle) bool { return o.id == id && o.hasCause(step, decided) })
	if i < 0 {
		i, *all = len(*all), append(*all, obstacle{id: id, packet: p})
	}
	at := &(*all)[i]
	if source := p.Client.Addr(); !p.Local && len(at.sources) < maxSources && !slices.Contains(at.sources, source) {
		at.sources = append(at.sources, source)
	}
	if vip := p.VIP.Addr(); !slices.Contains(at.vips, vip) {
		at.vips = append(at.vips, vip)
	}
}

func (all obstacles) findings(port uint16) (list []findings.Finding) {
	for _, o := range all {
		step, decided := trace.Deciding(o.packet)
		slices.SortFunc(o.sources, netip.Addr.Compare)
		slices.SortFunc(o.vips, netip.Addr.Compare)
		if o.id == findings.LocalTrafficBlocked &&
			slices.ContainsFunc(all, func(other obstacle) bool { return other.id != o.id && other.hasCause(step, decided) }) {
			continue // the other finding names the rule
		}
		if !decided && o.id == findings.PacketNotRedirected &&
			slices.ContainsFunc(all, func(other obstacle) bool { return other.explains(o) }) {
			continue // later packets of a connection do not pass the NAT chain that decided for the first one
		}
		f := findings.New(o.id, findings.Values{
			"sources": result.JoinAddresses(o.sources), "vip": result.JoinAddresses(o.vips),
			"port":  strconv.Itoa(int(step.Port)),
			"chain": trace.ChainName(step), "rule": trace.RuleText(step), "how": o.packet.Message,
			"source": o.packet.Client.Addr().String(), "address": o.packet.VIP.Addr().String(),
			"filtering": reversePathLink(o.packet),
		})
		if before, _, named := strings.Cut(f.Message, ", because of chain"); named && !decided {
			f.Message = before + ": " + o.packet.Message
		}
		f.Sources = o.sources
		if o.id == findings.VIPTestNotSent { // the service reports it without the rule
			f.Message += ": " + o.packet.Message
		}
		for _, vip := range o.vips { // a rule may need one command for each address family
			packet := o.packet
			packet.VIP = netip.AddrPortFrom(vip, packet.VIP.Port())
			if command := trace.Fix(packet, port); command != "" && !slices.Contains(f.Commands, command) {
				f.Commands = append(f.Commands, command)
			}
		}
		list = append(list, f)
	}
	return list
}

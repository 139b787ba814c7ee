// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Options select the packets.
type Options struct {
	Held    []netip.Addr // API VIPs of this host: requests of clients, and the replies
	Standby []netip.Addr // API VIPs of other hosts: requests of this host, and the replies
	Port    uint16       // the internal port of the service
	From    netip.Addr   // only packets of this client; invalid: of all
	Local   bool         // requests of this host to VIPs that it holds, too

	dial func() (*nftables.Conn, error) // nil: of the kernel
}

// Reader reads events without privileges. The prober's client implements it.
type Reader interface {
	ReadTrace(ctx context.Context, socket int, wait time.Duration) (*protocol.TraceResult, error)
}

// Trace is a running trace. It belongs to one goroutine.
type Trace struct {
	options  Options
	reader   Reader
	tables   *tables
	socket   int
	devices  []report.TracedDevice
	assemble assembler
	ruleset  uint32    // the ID of the current one
	chainsID uint32    // the ID of the ruleset of which the chains are
	chains   time.Time // when they were listed again
	listing  listing   // of nft, of the ruleset with the ID listedID
	listedID uint32
	listed   time.Time // when it was
	read     time.Time // all events until then were read
	counters counters  // before the packets that are not complete yet
	lost     uint64
}

// Start adds its own tables, which the kernel removes with this process, and follows the
// packets. reader decodes the kernel's events, because they contain bytes of strangers.
func Start(o Options, reader Reader) (*Trace, error) {
	if o.dial == nil {
		o.dial = dialOwner
	}
	t := &Trace{options: o, reader: reader, counters: readCounters()}
	var err error
	if t.devices, err = ingressDevices(o.Held); err != nil {
		return nil, explain(err)
	}
	if t.socket, err = openTraceSocket(); err != nil {
		return nil, explain(err)
	}
	if t.tables, err = addTables(o, t.devices, o.dial); err != nil {
		return nil, explain(errors.Join(err, unix.Close(t.socket)))
	}
	t.assemble = newAssembler(slices.Concat(o.Held, o.Standby), o.Port)
	if err := t.listChains(); err != nil {
		return nil, explain(errors.Join(err, t.Close()))
	}
	t.ruleset = t.chainsID
	return t, nil
}

// ingressDevices returns the devices through which packets for the VIPs arrive.
func ingressDevices(vips []netip.Addr) (devices []report.TracedDevice, err error) {
	addresses, err := address.List()
	if err != nil {
		return nil, err
	}
	links, err := address.Links()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if !slices.Contains(vips, a.IP) {
			continue
		}
		for _, l := range address.ArrivalLinks(links, a.Link) {
			d := report.TracedDevice{Name: l.Name, Index: l.Index, Kind: cmp.Or(l.Kind, "device")}
			if !slices.Contains(devices, d) && l.Index != loopbackIndex {
				devices = append(devices, d)
			}
		}
	}
	return devices, nil
}

const (
	// pollTime is the longest wait for events: packets are complete some time after their last one.
	pollTime = settleTime
	// relistTime is the shortest time between two lists of a ruleset that changed: a list of
	// a large ruleset takes much CPU.
	relistTime = 2 * time.Second
)

// Next waits for packets whose path is complete, until ctx ends. ctx must carry a deadline;
// reaching it is not an error. The last wait may take pollTime longer.
func (t *Trace) Next(ctx context.Context) ([]report.TracedPacket, error) {
	for ctx.Err() == nil {
		if all := t.assemble.complete(t.read); len(all) > 0 {
			return t.describe(ctx, all), nil
		}
		// The end of ctx must not lose events that the prober read.
		if err := t.poll(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	return t.describe(ctx, t.assemble.complete(t.read)), nil
}

// listChains lists the chains of the current ruleset.
func (t *Trace) listChains() (err error) {
	if t.chainsID, err = t.tables.rulesetID(); err == nil {
		t.assemble.chains, err = t.tables.listChains()
	}
	return err
}

// poll reads events once.
func (t *Trace) poll(ctx context.Context) error {
	before := t.counters
	if len(t.assemble.packets) == 0 {
		before = readCounters()
	}
	begin := time.Now()
	found, err := t.reader.ReadTrace(ctx, t.socket, pollTime)
	switch {
	case err != nil:
		return fmt.Errorf("cannot trace packets: %w", err)
	case len(found.Records) == 0:
		t.read = begin.Add(pollTime)
		<-time.After(time.Until(t.read)) // a hostile prober may answer at once
	case len(found.Records) < protocol.MaxTraceRecords:
		t.read = begin
	}
	t.lost += found.Lost
	current, err := t.tables.rulesetID()
	if err == nil && current != t.chainsID && time.Since(t.chains) > relistTime {
		t.chains = time.Now()
		err = t.listChains()
	}
	if err != nil {
		return explain(err)
	}
	if t.assemble.ruleset = current; current != t.ruleset {
		t.ruleset, t.assemble.ruleset = current, 0 // the previous ruleset may have handled these packets
	}
	t.assemble.add(found.Records, time.Now())
	if len(t.assemble.packets) == 0 { // otherwise packets may have been lost before this call
		t.counters = before
	}
	return nil
}

// describe adds the texts of rules, and the counters of lost packets.
func (t *Trace) describe(ctx context.Context, paths []*path) (packets []report.TracedPacket) {
	grown := sync.OnceValue(func() []report.KernelCounter { return readCounters().grown(t.counters) })
	for _, p := range paths {
		for j := range p.Steps {
			t.addRules(ctx, p.ruleset, &p.Steps[j])
		}
		if p.End == report.TraceDropped {
			step, _ := Deciding(p.TracedPacket)
			p.Message += ": " + RuleText(step)
		}
		if step, taken := p.taker(); taken && p.End == report.TraceUnknown {
			p.Message += ": " + RuleText(step)
		}
		if p.End == report.TraceLost {
			p.addCounters(grown())
		}
		if p.isSilent() {
			if found := ofSocket(grown()); len(found) > 0 {
				p.End, p.Message = report.TraceLost, p.Message+", and the kernel sent no reply"
				p.addCounters(found)
			}
		}
		packets = append(packets, p.TracedPacket)
	}
	return packets
}

// addCounters adds the counters that grew while the packet was lost.
func (p *path) addCounters(grown []report.KernelCounter) {
	p.Counters = grown
	var causes []string
	for _, c := range grown {
		causes = append(causes, fmt.Sprintf("%s grew by %d (%s)", c.Name, c.Grown, c.Meaning))
	}
	if tables := legacyTables(); tables != "" {
		causes = append(causes, "legacy iptables tables, which the kernel does not trace: "+tables)
	}
	if len(causes) == 0 {
		causes = []string{"no counter of the kernel grew"}
	}
	p.Message += ": " + strings.Join(causes, "; ")
}

func (t *Trace) addRules(ctx context.Context, ruleset uint32, s *report.TraceStep) {
	if s.Handle != 0 {
		s.Rule = t.rule(ctx, ruleset, *s)
	}
	for i := range s.Passed {
		passed := *s
		passed.RuleChain, passed.Handle = s.Passed[i].Chain, s.Passed[i].Handle
		s.Passed[i].Rule = t.rule(ctx, ruleset, passed)
	}
}

// rule returns a rule in nft syntax; empty if nft is not installed or does not list it. A table that
// is loaded again uses the handles of its previous rules for other ones: the listing must be of
// the ruleset that the packet met.
func (t *Trace) rule(ctx context.Context, ruleset uint32, s report.TraceStep) string {
	if ruleset != 0 && t.listedID != ruleset && time.Since(t.listed) > relistTime {
		// The end of the wait for packets must not leave out the texts of those that came.
		all, err := listRules(context.WithoutCancel(ctx))
		t.listed = time.Now()
		if after, idErr := t.tables.rulesetID(); err == nil && idErr == nil && after == ruleset {
			t.listing, t.listedID = all, ruleset
		}
	}
	if ruleset == 0 || t.listedID != ruleset {
		return ""
	}
	return t.listing.rule(s)
}

// Devices are the network devices at whose ingress packets are traced.
func (t *Trace) Devices() []report.TracedDevice { return t.devices }

// Lost counts how often the kernel dropped events.
func (t *Trace) Lost() uint64 { return t.lost }

// Close removes the tables.
func (t *Trace) Close() error { return errors.Join(unix.Close(t.socket), t.tables.close()) }

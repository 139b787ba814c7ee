// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Tester tests the VIPs at intervals. Observe never blocks.
type Tester struct {
	request func(context.Context, []netip.Addr) []protocol.VIPTested
	publish func([]report.VIPTest)
	record  func(changelog.Entry)
	confirm func(context.Context, netip.Addr) bool
	beats   <-chan struct{}
	jitter  func(time.Duration) time.Duration
	changed chan struct{} // the inputs changed

	mu     sync.Mutex
	inputs inputs
	period uint64 // the last one of all VIPs

	vips map[standby]state // of those with a result, owned by Run
}

// inputs are what the reconcile loop passed last.
type inputs struct {
	interval time.Duration // 0: off
	vips     []standby
}

// standby is a VIP while this host does not hold it. When it leaves this host again, it is
// another period.
type standby struct {
	addr   netip.Addr
	bgp    bool // several hosts may hold it
	period uint64
}

// New returns a tester. request makes the proxy process send the requests, and returns nil
// without a result. publish takes the results, and record the journal entries. Before a finding
// ends, confirm makes another process request the VIP, and reports whether the service answers.
// beats receives a value when both processes run anyway, every 5 s while they are idle: to wake
// them for a test would cost more than the test.
func New(
	request func(context.Context, []netip.Addr) []protocol.VIPTested,
	publish func([]report.VIPTest), record func(changelog.Entry),
	confirm func(context.Context, netip.Addr) bool, beats <-chan struct{},
) *Tester {
	return &Tester{
		request: request, publish: publish, record: record, confirm: confirm, beats: beats, jitter: jitter,
		changed: make(chan struct{}, 1), vips: make(map[standby]state),
	}
}

// jitter returns a random duration from four to six fifths of d: hosts do not send their
// requests at once.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1) //nolint:gosec // not a secret
}

// Observe takes the active configuration and the API VIPs. With oneHost, no other host can hold them.
func (t *Tester) Observe(c config.Config, vips []report.VIP, oneHost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, in := t.inputs, inputs{}
	if c.Enabled() {
		in.interval = c.VIPs.TestInterval
	}
	for _, v := range vips {
		// A link-local address is unreachable without the name of a link.
		if oneHost || v.State != report.VIPStandby || v.Address.IsLinkLocalUnicast() ||
			len(in.vips) == protocol.MaxTestedVIPs {
			continue
		}
		s := standby{addr: v.Address, bgp: v.Management == report.ManagementBGP}
		if i := slices.IndexFunc(before.vips, func(b standby) bool { return b.addr == s.addr && b.bgp == s.bgp }); i >= 0 {
			s.period = before.vips[i].period
		} else {
			t.period++
			s.period = t.period
		}
		in.vips = append(in.vips, s)
	}
	if t.inputs = in; before.interval == in.interval && slices.Equal(before.vips, in.vips) {
		return
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// current returns the inputs, without VIPs while tests are off.
func (t *Tester) current() inputs {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inputs.interval == 0 {
		return inputs{}
	}
	return t.inputs
}

// Run tests until ctx ends.
func (t *Tester) Run(ctx context.Context) error {
	var due time.Time // zero: no test follows
	expiry := time.NewTicker(expiryInterval)
	defer expiry.Stop()
	for {
		in := t.current()
		select {
		case <-ctx.Done():
			return nil
		case <-t.changed:
			in = t.current()
			t.retain(in)
			first := time.Now().Add(t.jitter(min(in.interval, firstDelay)))
			// Never later than before: VIPs that move must not delay it.
			if due.IsZero() || first.Before(due) {
				due = first
			}
		case <-expiry.C: // while the proxy process gives no result, or does not run
			if len(t.vips) > 0 {
				t.retain(in)
			}
		case <-t.beats:
			if due.IsZero() || time.Now().Before(due) {
				continue
			}
			t.testAll(ctx, in)
			due = time.Now().Add(t.jitter(nextDelay(in.interval, t.vips)))
		}
		if len(in.vips) == 0 {
			due = time.Time{}
		}
	}
}

// retain drops the results of other VIPs, of other periods, and old ones. A finding stays until a
// test succeeds.
func (t *Tester) retain(in inputs) {
	maps.DeleteFunc(t.vips, func(s standby, last state) bool {
		isOld := last.reported.Cause == "" && time.Since(last.reported.Checked) > missedTests*in.interval+expiryInterval
		return isOld || !slices.Contains(in.vips, s)
	})
	var all []report.VIPTest
	for _, s := range t.vips {
		all = append(all, s.reported)
	}
	slices.SortFunc(all, func(a, b report.VIPTest) int { return a.VIP.Compare(b.VIP) })
	t.publish(all)
}

func (t *Tester) testAll(ctx context.Context, in inputs) {
	vips := make([]netip.Addr, len(in.vips))
	for i, s := range in.vips {
		vips[i] = s.addr
	}
	bounded, cancel := context.WithTimeout(ctx, resultTimeout)
	defer cancel()
	results := t.request(bounded, vips)
	current := t.current()
	for _, s := range in.vips {
		i := slices.IndexFunc(results, func(r protocol.VIPTested) bool { return r.VIP == s.addr })
		if i < 0 || !slices.Contains(current.vips, s) { // a new period began for a VIP that was here meanwhile
			continue
		}
		before := t.vips[s]
		after := before.next(results[i], s.bgp, time.Now())
		if before.reported.Cause != "" && after.reported.Cause == "" {
			confirmed := t.confirm(ctx, s.addr)
			if current = t.current(); !confirmed || !slices.Contains(current.vips, s) {
				continue
			}
		}
		t.vips[s] = after
		t.recordChange(before.reported, after.reported)
	}
	t.retain(current)
}

// recordChange records a finding that begins or changes, and the end of one.
func (t *Tester) recordChange(before, after report.VIPTest) {
	vip := after.VIP.String()
	entry := changelog.Entry{Subject: "test of " + vip, Attrs: []slog.Attr{slog.String("vip", vip)}}
	switch f := findingOf(after); {
	case before.Cause == after.Cause:
		return
	case after.Cause != "":
		entry.Level, entry.Message = slog.LevelWarn, fmt.Sprintf("%s (%s)", f, f.ID)
		if f.Level == findings.Problem {
			entry.Level = slog.LevelError
		}
		entry.Attrs = append(entry.Attrs, slog.String("event", "vip-test-failed"), slog.String("cause", after.Cause))
	default:
		entry.Level = slog.LevelInfo
		entry.Message = fmt.Sprintf("the test of port 80 of the API VIP %v from this host succeeds again, after %s (%s)",
			after.VIP, report.Age(after.Since.Sub(before.Since)), before.Cause)
		entry.Attrs = append(entry.Attrs, slog.String("event", "vip-test-recovered"), slog.String("cause", before.Cause))
	}
	t.record(entry)
}

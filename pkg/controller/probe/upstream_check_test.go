// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// upstreamCheckTest is an upstream check in a synctest bubble, and an ingress that the test
// controls.
type upstreamCheckTest struct {
	*UpstreamCheck

	probes atomic.Int64
	down   atomic.Bool
}

func withUpstreamCheck(t *testing.T, test func(p *upstreamCheckTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ingress := netip.MustParseAddr("192.0.2.6")
		p := &upstreamCheckTest{UpstreamCheck: newTestUpstreamCheck()}
		probe := func(context.Context) []protocol.Reachability {
			p.probes.Add(1)
			found := protocol.Reachability{Addr: netip.AddrPortFrom(ingress, 80)}
			if p.down.Load() {
				found.Failure = &cause.Failure{Cause: "ingress-refused", Addr: found.Addr}
			}
			return []protocol.Reachability{found}
		}
		runDuring(t, func(ctx context.Context) error { return p.Run(ctx, probe) }, func() {
			p.SetTargets([]netip.Addr{ingress}, 80)
			test(p)
		})
	})
}

// runDuring runs a task, and stops it after test.
func runDuring(t *testing.T, run func(context.Context) error, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx) }()
	test()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

func (c *upstreamCheckTest) setVIPState(state report.VIPState, reason report.Reason) {
	vips := []report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), State: state}}
	c.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: reason, Message: "m", VIPs: vips}, time.Now())
	c.Observe(vips)
	c.advance(minProbeInterval)
}

func (c *upstreamCheckTest) advance(d time.Duration) (probes int64) {
	before := c.probes.Load()
	<-time.After(d)
	synctest.Wait()
	return c.probes.Load() - before
}

func (c *upstreamCheckTest) reason() report.Reason {
	return c.tracker.Report(report.Table{}).Condition().Reason
}

func TestUpstreamsAreProbedWhileVIPIsHeld(t *testing.T) {
	withUpstreamCheck(t, func(p *upstreamCheckTest) {
		p.setVIPState(report.VIPStandby, report.Standby)
		if n := p.advance(5 * time.Minute); n != 0 {
			t.Errorf("%d probes on standby", n)
		}
		p.setVIPState(report.VIPHeld, report.Serving)
		if p.probes.Load() != 1 {
			t.Error("no probe when a VIP arrives")
		}
		if n := p.advance(5 * time.Minute); n < 8 || n > 10 {
			t.Errorf("%d probes in five minutes while the ingress is reachable", n)
		}
		p.down.Store(true)
		p.advance(probeInterval + probeRetryInterval)
		if got := p.reason(); got != report.UpstreamUnreachable {
			t.Errorf("reason %s", got)
		}
		if n := p.advance(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d probes a minute while the ingress is unreachable", n)
		}
		p.down.Store(false)
		p.advance(probeRetryInterval)
		if got := p.reason(); got != report.Serving {
			t.Errorf("reason %s after the ingress is reachable again", got)
		}
		p.setVIPState(report.VIPStandby, report.Standby)
		if u := p.tracker.Report(report.Table{}).Upstreams; len(u) != 1 || !u[0].Checked.IsZero() {
			t.Errorf("outdated results are still reported: %+v", u)
		}
	})
}

// TestVIPThatArrivesIsProbed: each VIP that arrives requests a probe, the second one too.
func TestVIPThatArrivesIsProbed(t *testing.T) {
	withUpstreamCheck(t, func(p *upstreamCheckTest) {
		p.setVIPState(report.VIPHeld, report.Serving)
		vips := []report.VIP{
			{Address: netip.MustParseAddr("192.0.2.5"), State: report.VIPHeld},
			{Address: netip.MustParseAddr("2001:db8::5"), State: report.VIPHeld},
		}
		for _, want := range []int64{1, 0} { // the same VIPs again request none
			p.Observe(vips)
			if got := p.advance(minProbeInterval); got != want {
				t.Errorf("%d probes, want %d", got, want)
			}
		}
	})
}

func TestCanceledProbeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestUpstreamCheck()
		probe := func(ctx context.Context) []protocol.Reachability {
			<-ctx.Done()
			addr := netip.MustParseAddrPort("192.0.2.6:80")
			return []protocol.Reachability{{Addr: addr, Failure: &cause.Failure{Cause: "ingress-refused"}}}
		}
		p.Observe([]report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), State: report.VIPHeld}})
		p.SetTargets([]netip.Addr{netip.MustParseAddr("192.0.2.6")}, 80)
		p.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.Serving, Message: "m"}, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.probeAll(ctx, probe)
		if got := p.tracker.Report(report.Table{}).Condition().Reason; got != report.Serving {
			t.Errorf("reason %s", got)
		}
	})
}

func TestProbeRateIsBounded(t *testing.T) {
	withUpstreamCheck(t, func(p *upstreamCheckTest) {
		p.setVIPState(report.VIPHeld, report.Serving)
		before := p.probes.Load()
		for range 1000 { // ten seconds of failures
			p.Wake.Fire()
			p.advance(10 * time.Millisecond)
		}
		if n := p.probes.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d probes in ten seconds of failing challenges", n)
		}
	})
}

func newTestUpstreamCheck() *UpstreamCheck {
	return NewUpstreamCheck(newTestTracker(), new(process.Causes).Get)
}

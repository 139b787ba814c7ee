// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// probing is a prober in a synctest bubble, with an ingress that answers as
// told.
type probing struct {
	*networkProber
	board *report.Board
	looks atomic.Int64
	down  atomic.Bool
}

func withProber(t *testing.T, test func(p *probing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ingress := netip.MustParseAddr("192.0.2.6")
		p := &probing{board: report.NewBoard("test", time.Now(), func(_, _ report.Condition) {})}
		p.networkProber = &networkProber{board: p.board, now: make(chan struct{}, 1), known: unknown, probe: func(context.Context) []protocol.Reachability {
			p.looks.Add(1)
			found := protocol.Reachability{Addr: netip.AddrPortFrom(ingress, 80)}
			if p.down.Load() {
				found.Failure = &cause.Failure{Cause: "refused", Addr: found.Addr}
			}
			return []protocol.Reachability{found}
		}}
		during(t, p.run, func() {
			p.retarget([]netip.Addr{ingress}, 80)
			test(p)
		})
	})
}

// during runs a task, and stops it after test.
func during(t *testing.T, run func(context.Context) error, test func()) {
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

func (p *probing) hold(state report.VIPState, reason report.Reason) {
	p.board.SetLook(report.Look{
		Reason: reason, Message: "m",
		VIPs: []report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), State: state}},
	}, time.Now())
	p.hurry()
	p.after(probePause)
}

func (p *probing) after(d time.Duration) (looks int64) {
	before := p.looks.Load()
	<-time.After(d)
	synctest.Wait()
	return p.looks.Load() - before
}

func (p *probing) reason() report.Reason { return p.board.Report(report.Table{}).Condition().Reason }

func TestProberLooksWhileItHoldsAVIP(t *testing.T) {
	withProber(t, func(p *probing) {
		p.hold(report.VIPStandby, report.Standby)
		if n := p.after(5 * time.Minute); n != 0 {
			t.Errorf("%d looks on standby", n)
		}
		p.hold(report.VIPHeld, report.Serving)
		if p.looks.Load() != 1 {
			t.Error("no look when a VIP comes")
		}
		if n := p.after(5 * time.Minute); n < 8 || n > 10 {
			t.Errorf("%d looks in five minutes while all is well", n)
		}
		p.down.Store(true)
		p.after(probeLater + probeSoon)
		if got := p.reason(); got != report.UpstreamUnreachable {
			t.Errorf("reason %s", got)
		}
		if n := p.after(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d looks a minute while the ingress is away", n)
		}
		p.down.Store(false)
		p.after(probeSoon)
		if got := p.reason(); got != report.Serving {
			t.Errorf("reason %s after the ingress is back", got)
		}
		p.hold(report.VIPStandby, report.Standby)
		if u := p.board.Report(report.Table{}).Upstreams; len(u) != 1 || !u[0].Checked.IsZero() {
			t.Errorf("what was found then is still told: %+v", u)
		}
	})
}

func TestAStopIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &networkProber{board: report.NewBoard("test", time.Now(), func(_, _ report.Condition) {}), now: make(chan struct{}, 1)}
		p.probe = func(ctx context.Context) []protocol.Reachability {
			<-ctx.Done()
			addr := netip.MustParseAddrPort("192.0.2.6:80")
			return []protocol.Reachability{{Addr: addr, Failure: &cause.Failure{Cause: "refused"}}}
		}
		p.retarget([]netip.Addr{netip.MustParseAddr("192.0.2.6")}, 80)
		p.board.SetLook(report.Look{Reason: report.Serving, Message: "m"}, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.look(ctx)
		if got := p.board.Report(report.Table{}).Condition().Reason; got != report.Serving {
			t.Errorf("reason %s", got)
		}
	})
}

func TestClientsDoNotDriveTheProber(t *testing.T) {
	withProber(t, func(p *probing) {
		p.hold(report.VIPHeld, report.Serving)
		before := p.looks.Load()
		for range 1000 { // ten seconds of failures
			p.hurry()
			p.after(10 * time.Millisecond)
		}
		if n := p.looks.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d looks in ten seconds of failing challenges", n)
		}
	})
}

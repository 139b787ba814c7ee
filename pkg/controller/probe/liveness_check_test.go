// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// replacements is a proxy supervisor that counts replacements.
type replacements struct{ count int }

func (*replacements) Serving() (*process.Proxy, <-chan struct{}) { return nil, nil }
func (*replacements) HasBacklogRoom(uint16) bool                 { return false }
func (r *replacements) RequestReplacement(*process.Proxy, string) bool {
	r.count++
	return true
}

func noLoad() (ended, limited uint64) { return 0, 0 }

// newFailingLivenessCheck returns a check that has had an answer, and whose requests fail
// now.
func newFailingLivenessCheck(vip netip.Addr) (*LivenessCheck, *replacements) {
	status := newTestTracker()
	vips := []netip.Addr{vip}
	held := []report.VIP{{Address: vip, State: report.VIPHeld}}
	status.SetReconcileResult(tracker.ReconcileResult{Reason: report.Serving, Message: "m", VIPs: held}, time.Now())
	proxy := &replacements{}
	c := NewLivenessCheck(status, noLoad, proxy, LivenessTiming{})
	c.shown.answer = tracker.VIPProbe{Answered: vips}
	c.publish()
	return c, proxy
}

func (c *LivenessCheck) reason() report.Reason {
	return c.tracker.Report(report.Table{}).Condition().Reason
}

// A flood does not replace a process. It changes the condition after many failures.
func TestLoadDoesNotReplaceProxy(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	c, proxy := newFailingLivenessCheck(vip)
	for n := 1; n <= 2*loadFailureThreshold; n++ {
		c.recordFailure([]netip.Addr{vip}, vip, requestFailure{underLoad, connectionReset})
		want := report.Serving
		if n >= loadFailureThreshold {
			want = report.ProxyUnavailable
		}
		if got := c.reason(); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
	if proxy.count > 0 {
		t.Error("a process under load is replaced")
	}
}

// The delay after a replacement that has not helped doubles.
func TestReplacementBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vip := netip.MustParseAddr("192.0.2.5")
		c, proxy := newFailingLivenessCheck(vip)
		var after []time.Duration
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; <-time.After(time.Second) {
			c.recordFailure([]netip.Addr{vip}, vip, requestFailure{proxyFailed, "silence"})
			if proxy.count > len(after) {
				after = append(after, time.Since(begin).Round(10*time.Second))
			}
		}
		if len(after) != 4 || after[1] != time.Minute || after[3] != 7*time.Minute {
			t.Errorf("replaced after %v", after)
		}
		if got := c.reason(); got != report.ProxyUnavailable {
			t.Errorf("reason %s", got)
		}
	})
}

// TestRequestToLostVIPIsAborted: a VIP that leaves this host while the service waits for a
// response does not delay the requests to the others.
func TestRequestToLostVIPIsAborted(t *testing.T) {
	nstest.Require(t)
	vip, other := netip.MustParseAddr("127.0.0.5"), netip.MustParseAddr("127.0.0.6")
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", netip.AddrPortFrom(vip, 80).String())
	must(t, err)
	defer func() { _ = silent.Close() }()
	c := NewLivenessCheck(newTestTracker(), noLoad, &replacements{}, LivenessTiming{LivenessTimeout: time.Hour})
	both, without := ruleset.New(80, []netip.Addr{vip, other}), ruleset.New(80, []netip.Addr{other})
	still, aborted := ruleset.New(80, []netip.Addr{vip}), 0
	c.pending.Store(&ownRequest{vip, func() { aborted++ }})
	if c.SetTable(&still); aborted != 0 {
		t.Error("another VIP has left, and the request is aborted")
	}
	if c.SetTable(&without); aborted != 1 {
		t.Errorf("the VIP has left, and the request is aborted %d times", aborted)
	}
	c.SetTable(&both)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.attempt(t.Context(), vip, 80)
	}()
	conn, err := silent.Accept()
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.ReadAtLeast(conn, make([]byte, 100), len("GET / HTTP/1.1\r\n"))
	must(t, err)
	c.SetTable(&without)
	<-ended
	c.attempt(t.Context(), vip, 80) // it has left already
}

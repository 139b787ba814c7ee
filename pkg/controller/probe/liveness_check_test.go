// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// noProxy is a proxy supervisor without a process.
type noProxy struct{}

func (noProxy) Serving() (*process.Proxy, <-chan struct{})     { return nil, nil }
func (noProxy) Backlog(uint16) process.Backlog                 { return process.Backlog{} }
func (noProxy) RequestReplacement(*process.Proxy, string) bool { return false }

// TestReplacementRules: after which failures in a row the state changes, and a process is replaced.
// Nothing that the process reports has an influence.
func TestReplacementRules(t *testing.T) {
	t.Parallel()
	const timedOut = "response timed out"
	backlog := func(waiting uint32) process.Backlog {
		return process.Backlog{Listening: true, Waiting: waiting, Limit: 4096}
	}
	for name, tt := range map[string]struct {
		observation
		report, replace int // after this many failures; 0: never
		note            bool
	}{
		"does not accept":     {observation{timedOut, true, false, backlog(3)}, 3, 3, false},
		"accepts, is silent":  {observation{timedOut, true, false, backlog(0)}, 3, 3, false},
		"responds wrongly":    {observation{unexpectedResponse, true, false, backlog(0)}, 3, 3, false},
		"does not listen":     {observation{"connection refused", false, false, process.Backlog{}}, 3, 3, false},
		"resets connections":  {observation{connectionReset, true, false, backlog(0)}, 10, 40, false},
		"resets them at once": {observation{connectionReset, false, false, backlog(0)}, 10, 40, false},
		"a long backlog":      {observation{timedOut, true, false, backlog(longBacklog + 1)}, 10, 40, false},
		"a full backlog":      {observation{timedOut, false, false, backlog(4097)}, 10, 40, false},
		"dropped":             {observation{"connection timed out", false, false, backlog(0)}, 3, 0, true},
		"dropped under load":  {observation{"connection timed out", false, false, backlog(4096)}, 3, 0, true},
		"another program":     {observation{"", false, false, backlog(0)}, 3, 0, true},
		"this one is stopped": {observation{timedOut, true, true, backlog(4097)}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vip, now := netip.MustParseAddr("192.0.2.5"), time.Now()
			vips := []netip.Addr{vip}
			l := liveness{answer: tracker.VIPProbe{Answered: vips}, replacementBackoff: minReplacementBackoff}
			reported, replaced := 0, 0
			for n := 1; n <= 100 && replaced == 0; n++ {
				var replaceFor string
				l, replaceFor = l.afterFailure(vips, vip, tt.observation, livenessTimeout, now)
				if reported == 0 && (replaceFor != "" || l.answer.Failure != "" || l.answer.Note != "") {
					reported = n
				}
				if replaceFor != "" {
					replaced = n
				}
			}
			if reported != tt.report || replaced != tt.replace || (l.answer.Note != "") != tt.note {
				t.Errorf("reported after %d failures, want %d; replaced after %d, want %d; note %q",
					reported, tt.report, replaced, tt.replace, l.answer.Note)
			}
		})
	}
}

// TestFalseLoadIsBounded: the failures of a process that is not replaced for the longest time take
// less than three minutes.
func TestFalseLoadIsBounded(t *testing.T) {
	t.Parallel()
	vips := []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	l, replaceFor := liveness{answer: tracker.VIPProbe{Answered: vips}}, ""
	for n, failing := 1, livenessInterval; replaceFor == ""; n++ {
		o := observation{reason: connectionReset, reached: true}
		if n < thresholds[proxyFailed].replace {
			o.reason = unexpectedResponse
		}
		l, replaceFor = l.afterFailure(vips, vips[0], o, livenessTimeout, time.Now())
		if failing += livenessTimeout + livenessRetryInterval; failing > 3*time.Minute {
			t.Fatalf("not replaced after %d failures", n)
		}
	}
}

// The delay after a replacement that has not helped doubles.
func TestReplacementBackoff(t *testing.T) {
	t.Parallel()
	vip, begin := netip.MustParseAddr("192.0.2.5"), time.Now()
	l := liveness{replacementBackoff: minReplacementBackoff}
	var after []time.Duration
	for now := begin; now.Sub(begin) < 10*time.Minute; now = now.Add(time.Second) {
		var replaceFor string
		o := observation{reason: "silence", reached: true}
		if l, replaceFor = l.afterFailure([]netip.Addr{vip}, vip, o, livenessTimeout, now); replaceFor != "" {
			after = append(after, now.Sub(begin).Round(10*time.Second))
		}
	}
	if len(after) != 4 || after[1] != time.Minute || after[3] != 7*time.Minute {
		t.Errorf("replaced after %v", after)
	}
	if l.answer.Failure == "" {
		t.Error("not reported while it is not replaced")
	}
}

// TestRequestToLostVIPIsAborted: a VIP that leaves this host while the service waits for a
// response does not delay the requests to the others.
func TestRequestToLostVIPIsAborted(t *testing.T) {
	nstest.Require(t)
	vip, other := netip.MustParseAddr("127.0.0.5"), netip.MustParseAddr("127.0.0.6")
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", netip.AddrPortFrom(vip, 80).String())
	must(t, err)
	defer func() { _ = silent.Close() }()
	c := NewLivenessCheck(newTestTracker(), noProxy{}, LivenessTiming{LivenessTimeout: time.Hour})
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

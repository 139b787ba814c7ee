// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func newTestTracker() *tracker.Tracker {
	return tracker.New("test", time.Now(), func(_, _ report.Condition) {})
}

func newRecorderTest() (*Recorder, *strings.Builder) {
	var out strings.Builder
	return NewRecorder(slog.New(slog.NewTextHandler(&out, nil)), newTestTracker(),
		func() cause.Context { return cause.Context{} }, mailbox.NewTrigger(), func(challengelog.Attempt) {}), &out
}

func recordChallenge(r *Recorder, c report.Challenge) {
	c.ClientKind = report.OtherClient
	r.Record(&protocol.Stats{
		Challenges: []protocol.Challenge{{Challenge: c}},
		Sums:       []report.ForwardedCount{{ClientKind: c.ClientKind, Outcome: c.Outcome, Cause: c.Cause, Count: 1}},
	})
}

func recordRejection(r *Recorder, reason report.Rejection) {
	r.Record(&protocol.Stats{Rejected: []report.RejectionCount{{
		Rejection: reason, ClientKind: report.OtherClient,
		Count: 1,
	}}})
}

func TestChallengeLines(t *testing.T) {
	t.Parallel()
	r, out := newRecorderTest()
	c := report.Challenge{
		Time: time.Now(), Duration: 3100 * time.Microsecond, VIP: netip.MustParseAddr("192.0.2.5"),
		Client: netip.MustParseAddrPort("203.0.113.9:1234"),
		Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD", Status: 200, Outcome: report.Answered,
		Upstream: netip.MustParseAddrPort("192.0.2.6:80"),
	}
	recordChallenge(r, c)
	recordChallenge(r, c)
	c.ClientKind = report.OtherClient
	c.Status, c.Outcome = 502, report.UpstreamError
	why := &cause.Failure{Cause: "ingress-refused", Addr: c.Upstream}
	r.Record(&protocol.Stats{Challenges: []protocol.Challenge{{Challenge: c, Failure: why}}, UpstreamFailed: true})
	r.Finish()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`level=INFO msg="challenge evaGxfAD… for \"api.example.com\": a client from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms" event=challenge-started vip=192.0.2.5 client=203.0.113.9:1234 client_kind=other method=GET host=api.example.com token_prefix=evaGxfAD status=200 outcome=ok upstream=192.0.2.6:80 cause="" duration_ms=3.1 requests=1 requests_ok=1 span_ms=3`,
		`level=WARN msg="challenge evaGxfAD… for \"api.example.com\": a client from 203.0.113.9 got 502 in 3.1 ms (ingress-refused: 192.0.2.6:80 refuses connections. Check that a router runs there: on a cluster, on the holder of the ingress VIP. upstream.port and upstream.httpsPort must be its ports.) (before: 200)" event=challenge-changed`,
		`level=WARN msg="challenge evaGxfAD… for \"api.example.com\" has ended: others 2/3 ok, last → 502 ingress-refused, 3.1 ms, 0 s" event=challenge-ended`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d:\n%s\nlacks\n%s", i, lines[i], want[i])
		}
	}
	if len(r.onUndelivered) != 1 {
		t.Error("the failure does not request a probe")
	}
}

func TestFloodWritesFewLines(t *testing.T) {
	t.Parallel()
	r, out := newRecorderTest()
	for i := range 1200 {
		recordChallenge(r, report.Challenge{Time: time.Now(), Token: uint64(i), Status: 404, Outcome: report.NotFound})
		recordRejection(r, report.NotChallenge)
	}
	recordRejection(r, report.BadRequest)
	started := strings.Count(out.String(), "\n")
	r.Finish()
	if all := strings.Count(out.String(), "\n"); started > 20 || all != started+2 {
		t.Errorf("%d lines immediately, %d at the end", started, all)
	}
	for _, want := range []string{
		"more challenge requests in the last minute, not logged one by one",
		`msg="1201 requests rejected in the last minute: 1 bad-request, 1200 not-challenge" event=rejected rejected_bad_request=1 rejected_not_challenge=1200 count=1201`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	out.Reset()
	r.Finish()
	if out.Len() > 0 {
		t.Errorf("a minute without requests writes %s", out)
	}
}

func TestConnectionLimitsAreLogged(t *testing.T) {
	t.Parallel()
	r, out := newRecorderTest()
	for range 3 {
		recordRejection(r, report.SourceLimit)
	}
	recordRejection(r, report.Evicted)
	r.logWindowCounts()
	for _, want := range []string{
		`msg="4 requests rejected in the last minute: 1 evicted, 3 source-limit" event=rejected rejected_evicted=1 rejected_source_limit=3 count=4`,
		"limits.perSource: 0", "event=source-limit count=3", "event=evicted count=1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

func TestAcceptErrorsAreLogged(t *testing.T) {
	t.Parallel()
	r, out := newRecorderTest()
	r.logWindowCounts()
	r.Record(&protocol.Stats{AcceptFailures: 3, LastAcceptErrno: uint16(unix.ENOBUFS)})
	r.Record(&protocol.Stats{AcceptFailures: 4, LastAcceptErrno: uint16(unix.EMFILE)})
	r.logWindowCounts()
	r.logWindowCounts()
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "failed 7 times") ||
		!strings.Contains(out.String(), "too many open files") {
		t.Errorf("got %s", out)
	}
}

// TestTestRequestsAreNotRejected: they have counts of their own.
func TestTestRequestsAreNotRejected(t *testing.T) {
	t.Parallel()
	r, out := newRecorderTest()
	r.Record(&protocol.Stats{
		TestRequests: []report.TestSource{{Address: netip.MustParseAddr("192.0.2.11"), Count: 3}, {Count: 2}},
		Rejected:     []report.RejectionCount{{Rejection: report.Evicted, ClientKind: report.OtherClient, Count: 1}},
	})
	got := r.tracker.Report(report.Table{})
	if q := got.TestRequests; q.Total != 5 || q.Others != 2 || len(q.Sources) != 1 || q.Sources[0].Count != 3 ||
		time.Since(q.Sources[0].Last) > time.Minute {
		t.Errorf("%+v", q)
	}
	if len(got.Challenges.Rejected) != 1 || got.Challenges.Total != 0 || len(got.Traffic.Requests) != 1 {
		t.Errorf("%+v, %+v", got.Challenges, got.Traffic)
	}
	r.logWindowCounts()
	if text := out.String(); !strings.Contains(text, "1 requests rejected in the last minute: 1 evicted") {
		t.Error(text)
	}
}

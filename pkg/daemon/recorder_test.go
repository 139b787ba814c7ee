// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

func recording() (*recorder, *strings.Builder, *int) {
	var out strings.Builder
	failed := 0
	r := newRecorder(slog.New(slog.NewTextHandler(&out, nil)), status.NewBoard("test", time.Now(), func(_, _ status.Condition) {}), func() { failed++ })
	return r, &out, &failed
}

func tell(r *recorder, c status.Challenge) {
	r.news(&control.News{Challenges: []status.Challenge{c}})
}

func refuse(r *recorder, why status.Refusal) {
	r.news(&control.News{Refused: map[status.Refusal]uint64{why: 1}})
}

func TestChallengeLine(t *testing.T) {
	t.Parallel()
	r, out, failed := recording()
	c := status.Challenge{
		Duration: 3100 * time.Microsecond, VIP: netip.MustParseAddr("192.0.2.5"), Client: netip.MustParseAddrPort("203.0.113.9:1234"),
		Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD", Status: 200, Upstream: netip.MustParseAddrPort("192.0.2.6:80"),
	}
	tell(r, c)
	c.Status, c.Cause, c.Detail = 502, "refused", "start the router"
	r.news(&control.News{Challenges: []status.Challenge{c}, Undelivered: true})
	c.Status, c.Cause = 0, ""
	tell(r, c)
	c.Status, c.Cause = 503, "router-no-route" // the router was there to say so
	tell(r, c)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		`msg="challenge evaGxfAD… for \"api.example.com\" from 203.0.113.9: answered 200 by 192.0.2.6:80 in 3.1 ms"`,
		`level=WARN msg="challenge evaGxfAD… for \"api.example.com\" from 203.0.113.9: answered 502 (refused: start the router) in 3.1 ms"`,
		`msg="challenge evaGxfAD… for \"api.example.com\" from 203.0.113.9: client went away in 3.1 ms"`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d:\n%s\nlacks\n%s", i, lines[i], want)
		}
	}
	if *failed != 1 {
		t.Errorf("the failure was passed on %d times", *failed)
	}
}

func TestFloodWritesFewLines(t *testing.T) {
	t.Parallel()
	r, out, _ := recording()
	for range 10 * logBurst {
		tell(r, status.Challenge{Status: 200})
		refuse(r, status.NotChallenge)
	}
	refuse(r, status.BadRequest)
	r.flush()
	if got := strings.Count(out.String(), "\n"); got != logBurst+2 {
		t.Errorf("%d lines, want %d and two sums", got, logBurst)
	}
	for _, want := range []string{
		"1080 more challenges in the last minute than the 120",
		`msg="1201 requests refused in the last minute: 1 bad-request, 1200 not-challenge" event=refused refused_bad_request=1 refused_not_challenge=1200 count=1201`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	out.Reset()
	r.flush()
	if out.Len() > 0 {
		t.Errorf("a quiet minute writes %s", out)
	}
	tell(r, status.Challenge{Status: 200})
	if out.Len() == 0 {
		t.Error("the next minute's challenge has no line")
	}
}

func TestCrowdIsNamedWithItsMend(t *testing.T) {
	t.Parallel()
	r, out, _ := recording()
	for range 3 {
		refuse(r, status.SourceLimit)
	}
	refuse(r, status.Evicted)
	r.flush()
	for _, want := range []string{
		`msg="4 requests refused in the last minute: 1 evicted, 3 source-limit" event=refused refused_evicted=1 refused_source_limit=3 count=4`,
		"limits.perSource: 0", "event=source-limit count=3", "event=evicted count=1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

func TestAcceptTroubleIsNamed(t *testing.T) {
	t.Parallel()
	r, out, _ := recording()
	r.flush()
	r.news(&control.News{Failures: 3, LastFailure: "no buffers"})
	r.news(&control.News{Failures: 4, LastFailure: "too many open files"})
	r.flush()
	r.flush()
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "failed 7 times") || !strings.Contains(out.String(), "too many open files") {
		t.Errorf("got %s", out)
	}
}

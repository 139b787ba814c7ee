// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/gate"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

func recording(stats func() gate.Stats) (*recorder, *strings.Builder, *int) {
	var out strings.Builder
	failed := 0
	r := newRecorder(slog.New(slog.NewTextHandler(&out, nil)), status.NewBoard("test", time.Now(), func(_, _ status.Condition) {}), func() { failed++ })
	r.stats = stats
	return r, &out, &failed
}

func noTrouble() gate.Stats { return gate.Stats{} }

func TestChallengeLine(t *testing.T) {
	t.Parallel()
	r, out, failed := recording(noTrouble)
	c := status.Challenge{
		Duration: 3100 * time.Microsecond, VIP: netip.MustParseAddr("192.0.2.5"), Client: netip.MustParseAddrPort("203.0.113.9:1234"),
		Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD", Status: 200, Upstream: netip.MustParseAddrPort("192.0.2.6:80"),
	}
	r.Challenge(c)
	c.Status, c.Cause, c.Detail = 502, "refused", "start the router"
	r.Challenge(c)
	c.Status, c.Cause = 0, ""
	r.Challenge(c)
	c.Status, c.Cause = 503, "router-no-route" // the router was there to say so
	r.Challenge(c)
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
	r, out, _ := recording(noTrouble)
	for range 10 * logBurst {
		r.Challenge(status.Challenge{Status: 200})
		r.Refused(status.NotChallenge)
	}
	r.Refused(status.BadRequest)
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
	r.Challenge(status.Challenge{Status: 200})
	if out.Len() == 0 {
		t.Error("the next minute's challenge has no line")
	}
}

func TestCrowdIsNamedWithItsMend(t *testing.T) {
	t.Parallel()
	r, out, _ := recording(noTrouble)
	for range 3 {
		r.Refused(status.SourceLimit)
	}
	r.Refused(status.Evicted)
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
	stats := gate.Stats{}
	r, out, _ := recording(func() gate.Stats { return stats })
	r.flush()
	stats = gate.Stats{Failures: 7, LastFailure: errors.New("too many open files")}
	r.flush()
	r.flush()
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "failed 7 times") || !strings.Contains(out.String(), "too many open files") {
		t.Errorf("got %s", out)
	}
}

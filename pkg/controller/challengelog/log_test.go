// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func startTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// request is one of asker for a token, at a time after begin.
func request(asker report.ClientKind, token uint64, after time.Duration, code int) report.Challenge {
	c := report.Challenge{
		Time: startTime().Add(after), Duration: 3100 * time.Microsecond, Client: netip.MustParseAddrPort("203.0.113.9:1234"),
		Host: "api.example.com", Token: token, TokenPrefix: "evaGxfAD", ClientKind: asker, Status: code,
		Upstream: netip.MustParseAddrPort("192.0.2.6:80"), Outcome: report.Answered,
	}
	switch code {
	case 404:
		c.Outcome = report.NotFound
	case 503:
		c.Outcome, c.Cause, c.Detail = report.NoRoute, "router-no-route", "no route: mend it"
	case 502:
		c.Outcome, c.Cause, c.Detail = report.UpstreamError, "refused", "it refuses: mend it"
	}
	return c
}

// record tells requests, and returns what is said of them and at the end.
func record(requests ...report.Challenge) (said []string) {
	t := New()
	var lines []Entry
	for _, c := range requests {
		lines = append(lines, t.Record(c, c.Time)...)
	}
	lines = append(lines, t.EndAll(startTime().Add(time.Hour))...)
	for _, l := range lines {
		mark := "  "
		if l.Warn {
			mark = "! "
		}
		said = append(said, mark+l.Message)
	}
	return said
}

func TestChallenges(t *testing.T) {
	t.Parallel()
	const title = `challenge evaGxfAD… for "api.example.com"`
	for name, tt := range map[string]struct {
		requests []report.Challenge
		want     []string
	}{
		"of a certificate": {
			[]report.Challenge{
				request(report.CertManager, 1, 0, 200), request(report.CertManager, 1, 2*time.Second, 200),
				request(report.CertManager, 1, 4*time.Second, 200), request(report.CertManager, 1, 6*time.Second, 200),
				request(report.CertManager, 1, 8*time.Second, 200),
				request(report.LetsEncrypt, 1, 128*time.Second, 200), request(report.LetsEncrypt, 1, 129*time.Second, 200),
				request(report.LetsEncrypt, 1, 129*time.Second, 200), request(report.LetsEncrypt, 1, 129*time.Second, 200),
				request(report.LetsEncrypt, 1, 130*time.Second, 200),
			},
			[]string{
				"  " + title + ": cert-manager's self check from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: self check ok ×5, CA (Let's Encrypt) 5/5 → 200, 3.1 ms, 2 m 10 s",
			},
		},
		"of a route that comes": {
			[]report.Challenge{request(report.CertManager, 1, 0, 503), request(report.CertManager, 1, time.Second, 503), request(report.CertManager, 1, 10*time.Second, 200)},
			[]string{
				"! " + title + ": cert-manager's self check from 203.0.113.9 got 503 from 192.0.2.6:80 in 3.1 ms (router-no-route: no route: mend it)",
				"  " + title + ": cert-manager's self check from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms (before: 503 router-no-route)",
				"  " + title + " has ended: self check 1/3 ok, last → 200, 3.1 ms, 10 s",
			},
		},
		"of a failure": {
			[]report.Challenge{request(report.Pebble, 1, 0, 200), request(report.Pebble, 1, 0, 502)},
			[]string{
				"  " + title + ": Pebble from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"! " + title + ": Pebble from 203.0.113.9 got 502 in 3.1 ms (refused: it refuses: mend it) (before: 200)",
				"! " + title + " has ended: CA (Pebble) 1/2 ok, last → 502 refused, 3.1 ms, 0 s",
			},
		},
		"of a stranger": {
			[]report.Challenge{request(report.OtherClient, 1, 0, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms",
			},
		},
		"of check": {[]report.Challenge{request(report.CheckClient, 1, 0, 404)}, nil},
		"of a stubborn stranger": {
			[]report.Challenge{request(report.OtherClient, 1, 0, 404), request(report.OtherClient, 1, 3*time.Second, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: others 0/2 ok, last → 404, 3.1 ms, 3 s",
			},
		},
		"of two tokens": {
			[]report.Challenge{request(report.StepCA, 1, 0, 200), request(report.StepCA, 2, time.Second, 200), request(report.StepCA, 1, time.Second, 200)},
			[]string{
				"  " + title + ": step-ca (or a Go program) from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + ": step-ca (or a Go program) from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: CA (step-ca or a Go program) 2/2 → 200, 3.1 ms, 1 s",
				"  " + title + " has ended: CA (step-ca or a Go program) 1/1 → 200, 3.1 ms, 0 s",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := record(tt.requests...)
			if diff := cmp.Diff(tt.want, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	c := request(report.OtherClient, 1, 0, 200)
	c.Status, c.Outcome, c.Duration = 0, report.AnswerUnread, 1500*time.Millisecond
	said := record(c)
	if want := `  challenge evaGxfAD… for "api.example.com": a client from 203.0.113.9 got no response: it disconnected after 1500 ms`; said[0] != want {
		t.Errorf("got %s", said[0])
	}
}

// TestIdleTimeout: a challenge is over a minute after its last request, and a later one
// begins another story.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	teller := New()
	teller.Expire(startTime())
	c := request(report.CertManager, 1, 0, 200)
	end := c.Time.Add(c.Duration)
	later := end.Add(2 * IdleTimeout)
	for i, step := range []struct {
		heard bool
		now   time.Time
		lines int
	}{
		{true, c.Time, 0},
		{false, end.Add(IdleTimeout - 1), 0},
		{false, end.Add(IdleTimeout), 1},
		{false, end.Add(2 * IdleTimeout), 0},
		{true, later, 0},
		{false, later.Add(c.Duration).Add(IdleTimeout), 1},
	} {
		if step.heard {
			c.Time = step.now
			if l := teller.Record(c, step.now); len(l) != 1 || l[0].Kind != Started {
				t.Errorf("step %d: %v", i, l)
			}
		}
		if lines := teller.Expire(step.now); len(lines) != step.lines {
			t.Errorf("step %d: %d lines", i, len(lines))
		}
	}
}

// recordOverTime tells requests as they come, as the recorder does, and returns how many
// lines of each kind there were, and how many requests without one.
func recordOverTime(teller *ChallengeLog, until time.Duration, next func(after time.Duration) []report.Challenge) (lines map[EventKind]int, muted uint64) {
	lines = make(map[EventKind]int)
	take := func(said []Entry) {
		for _, l := range said {
			lines[l.Kind]++
			muted += l.Suppressed
		}
	}
	const step = 5 * time.Second
	for after := time.Duration(0); after < until; after += step {
		for _, c := range next(after) {
			take(teller.Record(c, c.Time))
		}
		take(teller.Expire(startTime().Add(after)))
	}
	take(teller.EndAll(startTime().Add(until)))
	return lines, muted
}

// TestAlternatingOutcomes: an outcome that keeps changing does not fill the journal.
func TestAlternatingOutcomes(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	n := 0
	lines, _ := recordOverTime(New(), hour, func(after time.Duration) (some []report.Challenge) {
		for range 20 {
			n++
			some = append(some, request(report.CertManager, 1, after, []int{503, 404}[n%2]))
		}
		return some
	})
	if all := lines[Started] + lines[Changed] + lines[Ended]; all > 120+6*60 {
		t.Errorf("%v", lines)
	}
}

// TestFloodSuppressesNoAnsweredChallenge: whoever floods the door with made-up tokens, with
// whatever User-Agent, is a few lines and a count; and a challenge that a solver
// answers has its lines all the while.
func TestFloodSuppressesNoAnsweredChallenge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const until = 10 * time.Minute
	strangers, good := uint64(0), uint64(0)
	lines, muted := recordOverTime(New(), until, func(after time.Duration) (some []report.Challenge) {
		for i := range 200 {
			who := []report.ClientKind{report.OtherClient, report.LetsEncrypt, report.CertManager}[i%3]
			some = append(some, request(who, random.Uint64(), after, 404))
			strangers++
		}
		if after%(2*time.Minute) == 0 {
			good++
			some = append(some, request(report.CertManager, 2*good, after, 200), request(report.LetsEncrypt, 2*good, after, 200))
		}
		return some
	})
	if lines[Started] > 120+6*10+10+10+int(good) || lines[Changed] != 0 || lines[Suppressed] > 11 {
		t.Errorf("%v", lines)
	}
	told := uint64(lines[Started]) - good
	if muted != strangers-told {
		t.Errorf("%d of %d strangers are told of, %d are counted", told, strangers, muted)
	}
	if lines[Ended] < int(good) {
		t.Errorf("%d of %d good challenges have their ends", lines[Ended], good)
	}
}

// TestEviction: who keeps many challenges open takes no room from others.
func TestEviction(t *testing.T) {
	t.Parallel()
	teller := New()
	// Ever more tokens, each asked for again and again.
	for minute := range 120 {
		now := startTime().Add(time.Duration(minute) * time.Minute)
		for i := range 6 * (minute + 20) {
			c := request(report.Pebble, uint64(1000+i), time.Duration(minute)*time.Minute, 404)
			teller.Record(c, now)
		}
		if len(teller.open) > maxOpen {
			t.Fatalf("%d challenges are followed", len(teller.open))
		}
		if minute < 60 {
			continue // no Passed: all stay open
		}
		c := request(report.CertManager, uint64(minute), time.Duration(minute)*time.Minute, 200)
		said := teller.Record(c, now)
		if len(said) == 0 || said[len(said)-1].Kind != Started || said[len(said)-1].Request.Token != c.Token {
			t.Fatalf("in minute %d cert-manager's challenge has no line: %v", minute, said)
		}
	}
}

// TestMaxDuration: a challenge that is asked for without end has its sums.
func TestMaxDuration(t *testing.T) {
	t.Parallel()
	lines, _ := recordOverTime(New(), 2*time.Hour, func(after time.Duration) []report.Challenge {
		return []report.Challenge{request(report.CertManager, 1, after, 200)}
	})
	want := map[EventKind]int{Started: 4, Ended: 4}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

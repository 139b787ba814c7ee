// SPDX-License-Identifier: Apache-2.0

package story

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

func begin() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// request is one of asker for a token, at a time after begin.
func request(asker status.Asker, token uint64, after time.Duration, code int) status.Challenge {
	c := status.Challenge{
		Time: begin().Add(after), Duration: 3100 * time.Microsecond, Client: netip.MustParseAddrPort("203.0.113.9:1234"),
		Host: "api.example.com", Token: token, TokenPrefix: "evaGxfAD", Asker: asker, Status: code,
		Upstream: netip.MustParseAddrPort("192.0.2.6:80"), Outcome: status.Answered,
	}
	switch code {
	case 404:
		c.Outcome = status.NotFound
	case 503:
		c.Outcome, c.Cause, c.Detail = status.NoRoute, "router-no-route", "no route: mend it"
	case 502:
		c.Outcome, c.Cause, c.Detail = status.Failed, "refused", "it refuses: mend it"
	}
	return c
}

// tell tells requests, and returns what is said of them and at the end.
func tell(requests ...status.Challenge) (said []string) {
	t := New()
	var lines []Line
	for _, c := range requests {
		if l, is := t.Heard(c); is {
			lines = append(lines, l)
		}
	}
	lines = append(lines, t.Finish(begin().Add(time.Hour))...)
	for _, l := range lines {
		mark := "  "
		if l.Bad {
			mark = "! "
		}
		said = append(said, mark+l.Message)
	}
	return said
}

func TestStories(t *testing.T) {
	t.Parallel()
	const title = `challenge evaGxfAD… for "api.example.com"`
	for name, tt := range map[string]struct {
		requests []status.Challenge
		want     []string
	}{
		"of a certificate": {
			[]status.Challenge{
				request(status.CertManager, 1, 0, 200), request(status.CertManager, 1, 2*time.Second, 200),
				request(status.CertManager, 1, 4*time.Second, 200), request(status.CertManager, 1, 6*time.Second, 200),
				request(status.CertManager, 1, 8*time.Second, 200),
				request(status.LetsEncrypt, 1, 128*time.Second, 200), request(status.LetsEncrypt, 1, 129*time.Second, 200),
				request(status.LetsEncrypt, 1, 129*time.Second, 200), request(status.LetsEncrypt, 1, 129*time.Second, 200),
				request(status.LetsEncrypt, 1, 130*time.Second, 200),
			},
			[]string{
				"  " + title + ": cert-manager's self check from 203.0.113.9 is answered 200 by 192.0.2.6:80 in 3.1 ms",
				"  " + title + " is over: self check ok ×5, CA (Let's Encrypt) 5/5 → 200, 3.1 ms, 2 m 10 s",
			},
		},
		"of a route that comes": {
			[]status.Challenge{request(status.CertManager, 1, 0, 503), request(status.CertManager, 1, time.Second, 503), request(status.CertManager, 1, 10*time.Second, 200)},
			[]string{
				"! " + title + ": cert-manager's self check from 203.0.113.9 is answered 503 by 192.0.2.6:80 in 3.1 ms (router-no-route: no route: mend it)",
				"  " + title + ": cert-manager's self check from 203.0.113.9 is answered 200 by 192.0.2.6:80 in 3.1 ms (before: 503 router-no-route)",
				"  " + title + " is over: self check 1/3 ok, last → 200, 3.1 ms, 10 s",
			},
		},
		"of a failure": {
			[]status.Challenge{request(status.Pebble, 1, 0, 200), request(status.Pebble, 1, 0, 502)},
			[]string{
				"  " + title + ": Pebble from 203.0.113.9 is answered 200 by 192.0.2.6:80 in 3.1 ms",
				"! " + title + ": Pebble from 203.0.113.9 is answered 502 in 3.1 ms (refused: it refuses: mend it) (before: 200)",
				"! " + title + " is over: CA (Pebble) 1/2 ok, last → 502 refused, 3.1 ms, 0 s",
			},
		},
		"of a stranger": {
			[]status.Challenge{request(status.OtherAsker, 1, 0, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 is answered 404 by 192.0.2.6:80 in 3.1 ms",
			},
		},
		"of a stubborn stranger": {
			[]status.Challenge{request(status.OtherAsker, 1, 0, 404), request(status.OtherAsker, 1, 3*time.Second, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 is answered 404 by 192.0.2.6:80 in 3.1 ms",
				"  " + title + " is over: others 0/2 ok, last → 404, 3.1 ms, 3 s",
			},
		},
		"of two tokens": {
			[]status.Challenge{request(status.StepCA, 1, 0, 200), request(status.StepCA, 2, time.Second, 200), request(status.StepCA, 1, time.Second, 200)},
			[]string{
				"  " + title + ": step-ca (or a Go program) from 203.0.113.9 is answered 200 by 192.0.2.6:80 in 3.1 ms",
				"  " + title + ": step-ca (or a Go program) from 203.0.113.9 is answered 200 by 192.0.2.6:80 in 3.1 ms",
				"  " + title + " is over: CA (step-ca or a Go program) 2/2 → 200, 3.1 ms, 1 s",
				"  " + title + " is over: CA (step-ca or a Go program) 1/1 → 200, 3.1 ms, 0 s",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := tell(tt.requests...)
			if diff := cmp.Diff(tt.want, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientThatWentAway(t *testing.T) {
	t.Parallel()
	c := request(status.OtherAsker, 1, 0, 200)
	c.Status, c.Outcome, c.Duration = 0, status.Unread, 1500*time.Millisecond
	said := tell(c)
	if want := `  challenge evaGxfAD… for "api.example.com": a client from 203.0.113.9 is answered nothing: it went away after 1500 ms`; said[0] != want {
		t.Errorf("got %s", said[0])
	}
}

// TestQuiet: a challenge is over a minute after its last request, and a later one
// begins another story.
func TestQuiet(t *testing.T) {
	t.Parallel()
	teller := New()
	teller.Passed(begin())
	c := request(status.CertManager, 1, 0, 200)
	end := c.Time.Add(c.Duration)
	later := end.Add(2 * Quiet)
	for i, step := range []struct {
		heard bool
		now   time.Time
		lines int
	}{
		{true, c.Time, 0},
		{false, end.Add(Quiet - 1), 0},
		{false, end.Add(Quiet), 1},
		{false, end.Add(2 * Quiet), 0},
		{true, later, 0},
		{false, later.Add(c.Duration).Add(Quiet), 1},
	} {
		if step.heard {
			c.Time = step.now
			if l, is := teller.Heard(c); !is || l.Kind != Begun {
				t.Errorf("step %d: %v", i, l)
			}
		}
		if lines := teller.Passed(step.now); len(lines) != step.lines {
			t.Errorf("step %d: %d lines", i, len(lines))
		}
	}
}

// TestToAndFro: an outcome that keeps changing does not fill the journal.
func TestToAndFro(t *testing.T) {
	t.Parallel()
	var requests []status.Challenge
	for i := range 500 {
		requests = append(requests, request(status.CertManager, 1, time.Duration(i)*time.Second, []int{200, 404}[i%2]))
	}
	said := tell(requests...)
	if len(said) != maxChanges+2 {
		t.Errorf("%d lines", len(said))
	}
}

// TestStrangersHideNobody: whoever floods the door with made-up tokens, the
// challenges of cert-manager and of a CA have their lines, and what has none is
// counted.
func TestStrangersHideNobody(t *testing.T) {
	t.Parallel()
	teller := New()
	random := rand.New(rand.NewPCG(1, 2))
	lines := make(map[Kind]int)
	take := func(l Line, is bool) {
		if is {
			lines[l.Kind]++
		}
	}
	const strangers = 100000
	for i := range strangers {
		take(teller.Heard(request(status.OtherAsker, random.Uint64(), time.Duration(i)*time.Microsecond, 404)))
	}
	wanted := []status.Challenge{request(status.CertManager, 1, time.Second, 503), request(status.LetsEncrypt, 2, time.Second, 200), request(status.OtherAsker, 3, time.Second, 200)}
	for _, c := range wanted {
		l, is := teller.Heard(c)
		if !is || l.Kind != Begun {
			t.Errorf("%s has no line", c.Asker)
		}
	}
	if len(teller.open) > maxOpen {
		t.Errorf("%d stories are followed", len(teller.open))
	}
	muted := uint64(0)
	for _, l := range teller.Finish(begin().Add(time.Minute)) {
		take(l, true)
		muted += l.Muted
	}
	want := map[Kind]int{Begun: otherBudget, Over: len(wanted), Muted: 1}
	if diff := cmp.Diff(want, lines); diff != "" || muted != strangers-otherBudget {
		t.Errorf("%d muted; lines (-want +got):\n%s", muted, diff)
	}
}

// TestManyAtATime: what is followed is bounded also when all are wanted.
func TestManyAtATime(t *testing.T) {
	t.Parallel()
	teller := New()
	for window := range 20 {
		teller.Passed(begin().Add(time.Duration(window) * time.Minute))
		for i := range 100 {
			teller.Heard(request(status.CertManager, uint64(1000*window+i), time.Hour, 503))
		}
	}
	if len(teller.open) != maxOpen {
		t.Errorf("%d stories are followed", len(teller.open))
	}
}

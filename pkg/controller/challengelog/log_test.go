// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func startTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// request returns a request of a kind of client for a token, at a time after startTime.
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
		c.Outcome, c.Cause, c.Detail = report.NoRoute, "route-missing", "no route: fix it"
	case 502:
		c.Outcome, c.Cause, c.Detail = report.UpstreamError, "ingress-refused", "it refuses: fix it"
	}
	return c
}

// record records requests, and returns the entries for them and at the end.
func record(requests ...report.Challenge) (entries []string) {
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
		entries = append(entries, mark+l.Message)
	}
	return entries
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
				request(report.LetsEncrypt, 1, 129*time.Second, 200), request(report.LetsEncrypt, 1, 130*time.Second, 200),
			},
			[]string{
				"  " + title + ": cert-manager's self check from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: self check ok ×5, CA (Let's Encrypt) 6/6 → 200, 3.1 ms, 2 m 10 s",
			},
		},
		"of a route that comes": {
			[]report.Challenge{
				request(report.CertManager, 1, 0, 503), request(report.CertManager, 1, time.Second, 503),
				request(report.CertManager, 1, 10*time.Second, 200),
			},
			[]string{
				"! " + title +
					": cert-manager's self check from 203.0.113.9 got 503 from 192.0.2.6:80 in 3.1 ms (route-missing: no " +
					"route: fix it)",
				"  " + title +
					": cert-manager's self check from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms (before: 503 route-missing)",
				"  " + title + " has ended: self check 1/3 ok, last → 200, 3.1 ms, 10 s",
			},
		},
		"of a failure": {
			[]report.Challenge{request(report.Pebble, 1, 0, 200), request(report.Pebble, 1, 0, 502)},
			[]string{
				"  " + title + ": Pebble from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"! " + title + ": Pebble from 203.0.113.9 got 502 in 3.1 ms (ingress-refused: it refuses: fix it) (before: 200)",
				"! " + title + " has ended: CA (Pebble) 1/2 ok, last → 502 ingress-refused, 3.1 ms, 0 s",
			},
		},
		"of two CAs": {
			[]report.Challenge{
				request(report.Google, 1, 0, 200), request(report.ZeroSSL, 1, time.Second, 404),
				request(report.Google, 1, time.Second, 200),
			},
			[]string{
				"  " + title + ": Google Trust Services from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + ": ZeroSSL from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms (before: 200)",
				"  " + title + ": Google Trust Services from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms (before: 404)",
				"  " + title +
					" has ended: CA (Google Trust Services) 2/2 → 200, CA (ZeroSSL) 0/1 ok, last → 404, 3.1 ms, 1 s",
			},
		},
		"of a stranger": {
			[]report.Challenge{request(report.OtherClient, 1, 0, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms",
			},
		},
		"of check": {
			[]report.Challenge{request(report.CheckClient, 1, 0, 404)},
			[]string{
				"  " + title + ": http01-proxyd check from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms",
			},
		},
		"of a repeating stranger": {
			[]report.Challenge{request(report.OtherClient, 1, 0, 404), request(report.OtherClient, 1, 3*time.Second, 404)},
			[]string{
				"  " + title + ": a client from 203.0.113.9 got 404 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: others 0/2 ok, last → 404, 3.1 ms, 3 s",
			},
		},
		"of two tokens": {
			[]report.Challenge{
				request(report.StepCA, 1, 0, 200), request(report.StepCA, 2, time.Second, 200),
				request(report.StepCA, 1, time.Second, 200),
			},
			[]string{
				"  " + title + ": step-ca or a Go program from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + ": step-ca or a Go program from 203.0.113.9 got 200 from 192.0.2.6:80 in 3.1 ms",
				"  " + title + " has ended: CA (step-ca or a Go program) 2/2 → 200, 3.1 ms, 1 s",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := record(tt.requests...)
			if diff := cmp.Diff(tt.want, entries); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	c := request(report.OtherClient, 1, 0, 200)
	c.Status, c.Outcome, c.Duration = 0, report.AnswerUnread, 1500*time.Millisecond
	entries := record(c)
	if want := `  challenge evaGxfAD… for "api.example.com": a client from 203.0.113.9 got no response: it disconnected after 1500 ms`; entries[0] != want {
		t.Errorf("got %s", entries[0])
	}
}

// TestIdleTimeout checks that a challenge ends a minute after its last request, and that a
// later request starts another one.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	challenges := New()
	challenges.Expire(startTime())
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
			if l := challenges.Record(c, step.now); len(l) != 1 || l[0].Kind != Started {
				t.Errorf("step %d: %v", i, l)
			}
			challenges.Record(c, step.now)
		}
		if lines := challenges.Expire(step.now); len(lines) != step.lines {
			t.Errorf("step %d: %d lines", i, len(lines))
		}
	}
}

// recordOverTime records requests as they arrive, and returns how many entries of each kind
// there were, and how many requests without one.
func recordOverTime(challenges *ChallengeLog, until time.Duration, next func(after time.Duration) []report.Challenge) (
	lines map[EventKind]int, suppressed uint64,
) {
	lines = make(map[EventKind]int)
	take := func(entries []Entry) {
		for _, l := range entries {
			lines[l.Kind]++
			suppressed += l.Suppressed
		}
	}
	const step = 5 * time.Second
	for after := time.Duration(0); after < until; after += step {
		for _, c := range next(after) {
			take(challenges.Record(c, c.Time))
		}
		take(challenges.Expire(startTime().Add(after)))
	}
	take(challenges.EndAll(startTime().Add(until)))
	return lines, suppressed
}

// TestAlternatingOutcomes checks that an outcome that keeps changing does not fill the journal.
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

// TestFloodSuppressesNoAnsweredChallenge floods the log with invented tokens and any
// User-Agent: they get a few entries and a count. A challenge that a solver answers has its
// entries meanwhile.
func TestFloodSuppressesNoAnsweredChallenge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const until = 10 * time.Minute
	strangers, good := uint64(0), uint64(0)
	lines, suppressed := recordOverTime(New(), until, func(after time.Duration) (some []report.Challenge) {
		for i := range 200 {
			kind := []report.ClientKind{report.OtherClient, report.LetsEncrypt, report.CertManager}[i%3]
			some = append(some, request(kind, random.Uint64(), after, 404))
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
	logged := uint64(lines[Started]) - good
	if suppressed != strangers-logged {
		t.Errorf("%d of %d invented tokens have entries, %d are counted", logged, strangers, suppressed)
	}
	if lines[Ended] < int(good) {
		t.Errorf("%d of %d answered challenges have their ends", lines[Ended], good)
	}
}

// TestEviction checks that no client can evict the challenges of others: of reserved names by
// requests for other names, and of another source within a name.
func TestEviction(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	log := New()
	const api, other = "api.example.com", "app.example.com"
	log.Reserve([]string{api, "api.example.org"})
	flood := func(host, client string, after time.Duration, requests int) {
		for range requests {
			c := request(report.CertManager, random.Uint64(), after, []int{200, 404}[random.IntN(2)])
			c.Host, c.Client = host, netip.AddrPortFrom(netip.MustParseAddr(client), 1234)
			log.Record(c, c.Time)
		}
	}
	const quiet = "203.0.113.10"
	flood(api, quiet, 0, 3)
	flood(other, quiet, 0, 3)
	for after := range 20 {
		flood(api, "203.0.113.9", time.Duration(after)*time.Second, 500)
		flood(other, "2001:db8::1", time.Duration(after)*time.Second, 500)
		flood(other, "2001:db8:0:1::1", time.Duration(after)*time.Second, 500)
	}
	of := func(g *group, client string) (n int) {
		from := report.Challenge{Client: netip.AddrPortFrom(netip.MustParseAddr(client), 0)}
		for _, c := range g.open {
			if c.source == from.Source() {
				n++
			}
		}
		return n
	}
	for host, limit := range map[string]int{api: maxOpen / 2, other: maxOpen} {
		if g, _ := log.groupOf(host); of(g, quiet) != 3 || len(g.open) > limit {
			t.Errorf("%s: %d challenges are followed, %d of the quiet client", host, len(g.open), of(g, quiet))
		}
	}
	// Another choice of names keeps the bound.
	log.Reserve([]string{"api.example.org"})
	flood(other, quiet, time.Minute, 1)
	flood(api, quiet, time.Minute, 1)
	if n := len(log.others.open); n > maxOpen || of(log.others, quiet) < 8 || len(log.reserved) != 1 {
		t.Errorf("%d challenges are followed, %d of the quiet client, %d reserved names", n, of(log.others, quiet),
			len(log.reserved))
	}
	names := make([]string, 2*maxReserved)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	log.Reserve(names)
	if _, limit := log.groupOf("1"); len(log.reserved) != maxReserved || limit != minOpen {
		t.Errorf("%d reserved names, %d challenges of each", len(log.reserved), limit)
	}
}

// TestEvictedAttempt checks that an attempt whose challenge must make room is not lost, and
// that single requests for invented tokens go first.
func TestEvictedAttempt(t *testing.T) {
	t.Parallel()
	log := New()
	log.Reserve([]string{"api.example.com"})
	lasting := func(after time.Duration) {
		log.Record(request(report.OtherClient, 1, after, 503), startTime().Add(after))
	}
	flood := func(after time.Duration, times int) {
		for token := range uint64(10 * maxOpen) {
			for range times {
				log.Record(request(report.OtherClient, 2+token, after, 503), startTime().Add(after))
			}
		}
	}
	lasting(0)
	lasting(10 * time.Second)
	flood(10*time.Second, 1)
	if got := log.TakeAttempts(); len(got) != 0 {
		t.Errorf("attempts after single requests: %+v", got)
	}
	flood(11*time.Second, 2)
	if got := log.TakeAttempts(); len(got) != 1 || got[0].Token != 1 {
		t.Errorf("attempts after repeated requests: %+v", got)
	}
}

// TestReservedBudget checks that neither requests for other names nor the source of a flood use up
// the entries of a reserved name.
func TestReservedBudget(t *testing.T) {
	t.Parallel()
	const api, other = "api.example.com", "app.example.com"
	for name, tt := range map[string]struct {
		host, client string
		want         int // entries of three challenges that changed before they ended
	}{
		"another name":             {other, "203.0.113.9", 9},
		"the name, another source": {api, "203.0.113.10", 3 + 2}, // after the first one, the client has used its share
		"the name, one source":     {api, "203.0.113.9", 3},      // the ends
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			log := New()
			log.Reserve([]string{api})
			got := 0
			take := func(entries []Entry) {
				for i := range entries {
					if entries[i].Request.TokenPrefix == "real" {
						got++
					}
				}
			}
			flooded := func(after time.Duration, token uint64, status int) {
				for range 100 {
					c := request(report.CertManager, random.Uint64(), after, 503)
					c.Host, c.Client = tt.host, netip.AddrPortFrom(netip.MustParseAddr(tt.client), 1234)
					take(log.Record(c, c.Time))
				}
				c := request(report.OtherClient, token, after, status)
				c.TokenPrefix = "real"
				take(log.Record(c, c.Time))
			}
			for token := range uint64(3) {
				begin := time.Duration(token) * 2 * time.Minute
				flooded(begin, token, 404)
				flooded(begin+10*time.Second, token, 503)
				take(log.Expire(startTime().Add(begin + 100*time.Second)))
			}
			if got != tt.want {
				t.Errorf("%d entries, want %d", got, tt.want)
			}
		})
	}
}

// TestMaxDuration checks that a challenge whose requests do not stop has its summaries.
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

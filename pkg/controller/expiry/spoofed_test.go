// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/stats"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	spoofedInterval = 40 * time.Millisecond // 25 requests a second
	realFailures    = 6
)

// spoofer requests invented tokens.
type spoofer struct {
	host    string
	kind    report.ClientKind
	client  string
	clients int // instead of client, if not 0
	status  int
	repeat  uint64 // requests for each token; 0: one

	sent uint64
}

func (s *spoofer) next() protocol.Challenge {
	token := 1000 + s.sent/max(1, s.repeat)
	if s.clients > 0 {
		s.client = fmt.Sprintf("203.0.113.%d", token%uint64(s.clients))
	}
	s.sent++
	return challenged(s.host, token, "spoofed_", s.kind, s.client, s.status)
}

func challenged(host string, token uint64, prefix string, kind report.ClientKind, client string, status int,
) protocol.Challenge {
	c := protocol.Challenge{Challenge: report.Challenge{
		VIP: netip.MustParseAddr("192.0.2.5"), Client: netip.AddrPortFrom(netip.MustParseAddr(client), 40000),
		Method: "GET", Host: host, Token: token, TokenPrefix: prefix, Status: status,
		Upstream: netip.MustParseAddrPort("192.0.2.6:80"), ClientKind: kind, Outcome: report.Answered,
	}}
	if status != 200 {
		c.Outcome = report.NoRoute
		c.Failure = &cause.Failure{Cause: "route-missing", Addr: c.Upstream}
	}
	return c
}

// withRecorder runs the watcher with the recorder that passes attempts to it, for a certificate
// whose renewal is due.
func withRecorder(t *testing.T, test func(w *watcherTest, record func(protocol.Challenge))) {
	t.Helper()
	withWatcher(t, func(w *watcherTest) {
		w.start = w.start.AddDate(0, 0, -61)
		log := slog.New(slog.NewTextHandler(w, nil))
		recorder := stats.NewRecorder(log, tracker.New("test", time.Now(), func(_, _ report.Condition) {}),
			func() cause.Context { return cause.Context{} }, mailbox.NewTrigger(), w.ObserveAttempt)
		w.setVIPs("192.0.2.5")
		w.configure("api.example.com")
		w.advance(time.Minute)
		recorder.ObserveCertificates(w.lastKnown())
		ctx, cancel := context.WithCancel(context.Background()) // that of t is not in the bubble
		var running sync.WaitGroup
		running.Go(func() { _ = recorder.Run(ctx) })
		test(w, func(c protocol.Challenge) {
			recorder.Record(&protocol.Stats{
				Challenges: []protocol.Challenge{c},
				Sums:       []report.ForwardedCount{{ClientKind: c.ClientKind, Outcome: c.Outcome, Count: 1}},
			})
		})
		cancel()
		running.Wait()
	})
}

// TestSpoofedRequestsHideNoFailure sends 25 invented requests a second beside six attempts to renew
// the API's certificate that fail. Each of them has its entry, and counts as a failed renewal, for
// which HTTP01APICertificateRenewalFailed fires.
func TestSpoofedRequestsHideNoFailure(t *testing.T) {
	const api, app, certManager, stranger = "api.example.com", "app.example.com", "192.0.2.10", "203.0.113.9"
	for name, flood := range map[string]spoofer{
		"of nobody":                        {},
		"for another host":                 {host: app, kind: report.CertManager, client: certManager, status: 503},
		"for an answering host":            {host: app, kind: report.CertManager, client: certManager, status: 200},
		"for the name":                     {host: api, kind: report.CertManager, client: stranger, status: 503},
		"for the name, repeated":           {host: api, kind: report.CertManager, client: stranger, status: 503, repeat: 3},
		"of cert-manager's host":           {host: api, kind: report.CertManager, client: certManager, status: 503},
		"for the name as check":            {host: api, kind: report.CheckClient, client: certManager, status: 503},
		"of cert-manager's host, repeated": {host: api, kind: report.CertManager, client: certManager, status: 503, repeat: 3},
		"of many clients, repeated":        {host: api, kind: report.CertManager, clients: 200, status: 503, repeat: 3},
		"of many clients":                  {host: api, kind: report.CertManager, clients: 200, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withRecorder(t, func(w *watcherTest, record func(protocol.Challenge)) {
				for failure := range uint64(realFailures) {
					for i := range int(110 * time.Second / spoofedInterval) {
						if flood.host != "" {
							record(flood.next())
						}
						// After 20 s, cert-manager repeats its self check every 10 s for 30 s.
						const first, last, every = 20 * 25, 50 * 25, 10 * 25
						if i >= first && i < last && i%every == 0 {
							record(challenged(api, failure, fmt.Sprintf("real%d", failure), report.CertManager, certManager, 503))
						}
						<-time.After(spoofedInterval)
					}
					w.advance(25 * time.Minute)
				}
				entries := 0
				var output string
				w.change(func() { output = w.output.String() })
				for failure := range realFailures {
					line := fmt.Sprintf(`level=WARN .*has ended: .*token_prefix=real%d .*cause=route-missing`, failure)
					if regexp.MustCompile(line).MatchString(output) {
						entries++
					}
				}
				if entries != realFailures {
					t.Errorf("%d of %d failures have entries", entries, realFailures)
				}
				if c := w.lastKnown()[1]; c.Name != api || c.FailedRenewals != realFailures {
					t.Errorf("%d failed renewals of %s, want %d", c.FailedRenewals, c.Name, realFailures)
				}
				t.Logf("%d lines about challenges, %d of failed renewals", w.lines("event=challenge"), w.lines("event=renewal-failed"))
			})
		})
	}
}

// TestAnsweringAppCostsFewEntries: a host that answers every path with 200 costs at most one line
// per 10 s, however its tokens are requested.
func TestAnsweringAppCostsFewEntries(t *testing.T) {
	for name, flood := range map[string]spoofer{
		"one client":                   {host: "app.example.com", client: "203.0.113.9"},
		"many clients":                 {host: "app.example.com", clients: 200},
		"repeated":                     {host: "app.example.com", client: "203.0.113.9", repeat: 3},
		"repeated by many":             {host: "app.example.com", clients: 200, repeat: 3},
		"the API's name":               {host: "api.example.com", client: "203.0.113.9"},
		"the API's name, many clients": {host: "api.example.com", clients: 200, repeat: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withRecorder(t, func(w *watcherTest, record func(protocol.Challenge)) {
				const span = 140 * time.Second
				flood.kind, flood.status = report.CertManager, 200
				for range span / spoofedInterval {
					record(flood.next())
					<-time.After(spoofedInterval)
				}
				lines := w.lines("event=challenge")
				t.Logf("%d lines in %v", lines, span)
				if lines == 0 || lines > int(span/(10*time.Second)) {
					t.Errorf("%d lines in %v", lines, span)
				}
			})
		})
	}
}

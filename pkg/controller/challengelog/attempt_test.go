// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestAttempt: what an ended challenge shows about an attempt to get a certificate.
func TestAttempt(t *testing.T) {
	t.Parallel()
	ask := func(kind report.ClientKind, statuses ...int) (all []report.Challenge) {
		for i, status := range statuses {
			all = append(all, request(kind, 1, time.Duration(i)*time.Second, status))
		}
		return all
	}
	for name, tt := range map[string]struct {
		requests []report.Challenge
		want     Attempt // without host, token and times
		none     bool
	}{
		"of a certificate": {
			requests: append(ask(report.CertManager, 503, 200), ask(report.LetsEncrypt, 200, 200)...),
			want:     Attempt{Text: "the CA's requests were answered with 200, but the API server presents no new certificate"},
		},
		"a self check that never succeeds": {
			requests: ask(report.CertManager, 404, 503, 503),
			want: Attempt{
				Text:  "cert-manager's self check never got 200; the last response was 503 route-missing",
				Cause: "route-missing",
			},
		},
		"a token that the solver does not have": {
			requests: ask(report.CertManager, 404),
			want:     Attempt{Text: "cert-manager's self check never got 200; the last response was 404"},
		},
		"no CA": {
			requests: ask(report.CertManager, 200, 200),
			want:     Attempt{Text: "cert-manager's self check succeeded, and no CA sent a request to this host"},
		},
		"a CA that gets something else": {
			requests: append(ask(report.CertManager, 200, 200), ask(report.LetsEncrypt, 200, 502, 502)...),
			want: Attempt{
				Invalid: true,
				Text:    "2 of 3 requests of the CA did not get 200; the last response was 502 ingress-refused",
				Cause:   "ingress-refused",
			},
		},
		"one of a CA's perspectives": {
			requests: append(ask(report.CertManager, 200, 200), ask(report.LetsEncrypt, 502, 200, 200)...),
			want:     Attempt{Text: "the CA's requests were answered with 200, but the API server presents no new certificate"},
		},
		"a CA with any User-Agent": {
			requests: append(ask(report.CertManager, 200), ask(report.OtherClient, 503)...),
			want: Attempt{
				Invalid: true,
				Text:    "1 of 1 requests of the CA did not get 200; the last response was 503 route-missing",
				Cause:   "route-missing",
			},
		},
		"only a CA, for a token that no solver has": {
			requests: ask(report.Pebble, 404, 404),
			want:     Attempt{Text: "2 of 2 requests of the CA did not get 200; the last response was 404"},
		},
		"a self check and a stranger, for a token that no solver has": {
			requests: append(ask(report.CertManager, 404), ask(report.OtherClient, 404)...),
			want:     Attempt{Text: "cert-manager's self check never got 200; the last response was 404"},
		},
		"a stranger":   {requests: ask(report.OtherClient, 404, 404), none: true},
		"a Go program": {requests: ask(report.StepCA, 404, 404), none: true},
		"a stranger with a token": {
			requests: ask(report.OtherClient, 200),
			want:     Attempt{Text: "the CA's requests were answered with 200, but the API server presents no new certificate"},
		},
		"http01-proxyd check": {requests: ask(report.CheckClient, 404), none: true},
		"http01-proxyd check gets something else than a CA": {
			requests: append(ask(report.CertManager, 200), ask(report.CheckClient, 502)...),
			want:     Attempt{Text: "cert-manager's self check succeeded, and no CA sent a request to this host"},
		},
		"any client that repeats a request": {
			requests: []report.Challenge{
				request(report.OtherClient, 1, 0, 503), request(report.OtherClient, 1, 10*time.Second, 503),
			},
			want: Attempt{
				Text:  "2 requests for its challenge did not get 200; the last response was 503 route-missing",
				Cause: "route-missing",
			},
		},
		"a CA that follows no answer": {
			requests: ask(report.LetsEncrypt, 503),
			want: Attempt{
				Text:  "1 of 1 requests of the CA did not get 200; the last response was 503 route-missing",
				Cause: "route-missing",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := New()
			log.Reserve([]string{"api.example.com"})
			var last time.Time
			for _, c := range tt.requests {
				log.Record(c, c.Time)
				if len(log.TakeAttempts()) > 0 {
					t.Error("an attempt before the end")
				}
				if end := c.Time.Add(c.Duration); end.After(last) {
					last = end
				}
			}
			log.EndAll(startTime().Add(time.Hour))
			got := log.TakeAttempts()
			var want []Attempt
			if !tt.none {
				tt.want.Name, tt.want.Token, tt.want.Started, tt.want.Ended = "api.example.com", 1, startTime(), last
				want = append(want, tt.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOutranks: of several attempts, one that cannot be forged is reported, or else the longest.
func TestOutranks(t *testing.T) {
	t.Parallel()
	lasting := func(d time.Duration, invalid bool) Attempt {
		return Attempt{Started: startTime(), Ended: startTime().Add(d), Invalid: invalid}
	}
	ranked := []Attempt{
		lasting(0, false), lasting(time.Hour, false), lasting(time.Second, true), lasting(time.Minute, true),
	}
	for i, a := range ranked {
		for j, b := range ranked {
			if a.Outranks(b) != (i > j) {
				t.Errorf("attempt %d outranks %d: %t", i, j, a.Outranks(b))
			}
		}
	}
}

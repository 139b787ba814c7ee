// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestWatchLog: a request of cert-manager or a CA for the token ends the wait. Requests of
// other clients and for other tokens do not count.
func TestWatchLog(t *testing.T) {
	t.Parallel()
	const token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	one := func(kind report.ClientKind, prefix string) report.RecentChallenge {
		return report.RecentChallenge{ClientKind: kind, TokenPrefix: prefix, Host: "api.lab.test", Status: 200}
	}
	selfCheck := one(report.CertManager, "evaGxfAD")
	irrelevant := []report.RecentChallenge{
		one(report.CertManager, "another1"), one(report.CheckClient, "evaGxfAD"), one(report.OtherClient, "evaGxfAD"),
		one(report.StepCA, "evaGxfAD"), one(report.CertManager, ""),
	}
	gone := errors.New("the service does not respond")
	type state struct {
		recent []report.RecentChallenge
		total  uint64
		err    error
	}
	for name, tt := range map[string]struct {
		limit   time.Duration // of the caller
		at      func(elapsed time.Duration) state
		want    Log
		elapsed time.Duration
	}{
		"requested before": {
			time.Minute,
			func(time.Duration) state { return state{recent: []report.RecentChallenge{selfCheck}, total: 1} },
			Log{Request: &selfCheck},
			0,
		},
		"requested by a CA": {time.Minute, func(time.Duration) state {
			return state{recent: []report.RecentChallenge{one(report.LetsEncrypt, "evaGxfAD")}}
		}, Log{Request: new(one(report.LetsEncrypt, "evaGxfAD"))}, 0},
		"no request": {
			time.Minute, func(time.Duration) state { return state{recent: irrelevant, total: 5} },
			Log{Watched: WatchTime},
			WatchTime,
		},
		"the time of the run": {
			5 * time.Second, func(time.Duration) state { return state{} },
			Log{Unknown: "no time left to wait for its request"},
			5 * time.Second,
		},
		"no service": {
			time.Minute, func(time.Duration) state { return state{err: gone} },
			Log{Unknown: gone.Error()},
			0,
		},
		"more than the log": {
			time.Minute,
			func(e time.Duration) state { return state{recent: irrelevant, total: 6 * uint64(e/time.Second)} },
			Log{Unknown: "the challenge log of the service is too short for the number of requests"},
			time.Second,
		},
		"as much as the log": {
			time.Minute,
			func(e time.Duration) state { return state{recent: irrelevant, total: 5 * uint64(e/time.Second)} },
			Log{Watched: WatchTime},
			WatchTime,
		},
		"requested meanwhile": {time.Minute, func(e time.Duration) state {
			if e < 9*time.Second {
				return state{}
			}
			return state{recent: []report.RecentChallenge{selfCheck}, total: 1}
		}, Log{Request: &selfCheck}, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				begin := time.Now()
				got := WatchLog(ctx, func() (r report.Report, err error) {
					s := tt.at(time.Since(begin))
					r.Challenges.Recent, r.Challenges.Total = s.recent, s.total
					return r, s.err
				}, token)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if elapsed := time.Since(begin); elapsed != tt.elapsed {
					t.Errorf("returned after %v, want %v", elapsed, tt.elapsed)
				}
				if got.Missing() != (tt.want.Watched > 0) {
					t.Errorf("missing: %v", got.Missing())
				}
			})
		})
	}
}

// TestLogUnknown: an incomplete observation of the log is neither a finding nor a complete
// check.
func TestLogUnknown(t *testing.T) {
	t.Parallel()
	r := SelfCheck{Token: "token", Log: Log{Unknown: "no time left"}}.Check()
	if len(r.Findings) > 0 || !r.Incomplete || !strings.Contains(r.NotChecked,
		"whether cert-manager requests the challenge: no time left") {
		t.Errorf("%+v", r)
	}
}

// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// WatchTime is longer than the interval in which cert-manager repeats a failed self
	// check: 10 s (pkg/controller/acmechallenges, DNS01CheckRetryPeriod).
	WatchTime = 11 * time.Second
	// queryInterval is the interval in which the service is queried meanwhile.
	queryInterval = time.Second
)

// Log is what the challenge log of the service on this host shows about the challenge of
// --token. The zero value shows nothing.
type Log struct {
	Request *report.RecentChallenge // the last one of cert-manager or a CA; nil: none
	Watched time.Duration           // how long the log was watched without one
	Unknown string                  // why it is not known; empty: it is known, or nothing is expected
}

// Missing reports whether cert-manager sends no request.
func (l Log) Missing() bool { return l.Request == nil && l.Watched >= WatchTime }

// WatchLog queries the service until its challenge log contains a request of cert-manager or a
// CA for a token, for at most [WatchTime].
func WatchLog(ctx context.Context, query func() (report.Report, error), token string) Log {
	tick := time.NewTicker(queryInterval)
	defer tick.Stop()
	begin := time.Now()
	for first, before := true, uint64(0); ; first = false {
		r, err := query()
		if err != nil {
			return Log{Unknown: err.Error()}
		}
		if c := ingress.Challenges(r.Challenges.Recent).LastWithToken(token); c != nil {
			return Log{Request: c}
		}
		if total := r.Challenges.Total; !first && total-before > uint64(len(r.Challenges.Recent)) {
			return Log{Unknown: "the challenge log of the service is too short for the number of requests"}
		}
		before = r.Challenges.Total
		if watched := time.Since(begin); watched >= WatchTime {
			return Log{Watched: watched}
		}
		select {
		case <-ctx.Done():
			return Log{Unknown: "no time left to wait for its request"}
		case <-tick.C:
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

const (
	// logWindow and logBurst bound what requests can write into the journal. A
	// certificate order makes about a dozen lines: cert-manager's self checks
	// and the CA's perspectives.
	logWindow = time.Minute
	logBurst  = 120
)

// recorder takes what the gate tells to the board and, in bounds, to the log:
// a line for each challenge, a line a minute for everything refused.
type recorder struct {
	log    *slog.Logger
	board  *status.Board
	failed func() // called after a challenge that did not reach the ingress

	mu      sync.Mutex
	written int    // challenge lines in this window
	muted   uint64 // challenges without a line in this window
	refused map[status.Refusal]uint64
	trouble uint64 // failures of accept in this window
	last    string // the last of them
}

func newRecorder(log *slog.Logger, board *status.Board, failed func()) *recorder {
	return &recorder{log: log, board: board, failed: failed, refused: make(map[status.Refusal]uint64)}
}

// news takes what has happened at the gate.
func (r *recorder) news(n *control.News) {
	for _, c := range n.Challenges {
		c.Time = c.Time.Local()
		r.board.Challenge(c)
		if r.mayWrite() {
			logChallenge(r.log, c)
		}
	}
	if n.Untold > 0 {
		r.board.Untold(n.Untold)
	}
	for why, count := range n.Refused {
		r.board.Refused(why, count)
	}
	if n.Undelivered {
		r.failed()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted += n.Untold
	for why, count := range n.Refused {
		r.refused[why] += count
	}
	if n.Failures > 0 {
		r.trouble += n.Failures
		r.last = n.LastFailure
	}
}

func (r *recorder) mayWrite() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written >= logBurst {
		r.muted++
		return false
	}
	r.written++
	return true
}

// run closes a window every minute until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	tick := time.NewTicker(logWindow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.flush()
		}
	}
}

// flush writes the sums of a window and begins the next.
func (r *recorder) flush() {
	r.mu.Lock()
	muted, refused, trouble, last := r.muted, r.refused, r.trouble, r.last
	r.written, r.muted, r.refused, r.trouble = 0, 0, make(map[status.Refusal]uint64), 0
	r.mu.Unlock()
	if trouble > 0 {
		r.log.Error(fmt.Sprintf("connections had to wait in the backlog: accept failed %d times in the last minute: raise LimitNOFILE, or lower limits.maxConnections", trouble),
			slog.String("event", "accept"), slog.String("error", last))
	}
	if muted > 0 {
		r.log.Warn(fmt.Sprintf("%d more challenges in the last minute than the %d that have lines of their own", muted, logBurst),
			slog.String("event", "challenges-muted"), slog.Uint64("count", muted))
	}
	if len(refused) == 0 {
		return
	}
	total := uint64(0)
	attrs := []slog.Attr{slog.String("event", "refused")}
	parts := make([]string, 0, len(refused))
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		total += refused[reason]
		parts = append(parts, fmt.Sprintf("%d %s", refused[reason], reason))
		attrs = append(attrs, slog.Uint64("refused_"+strings.ReplaceAll(string(reason), "-", "_"), refused[reason]))
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo,
		fmt.Sprintf("%d requests refused in the last minute: %s", total, strings.Join(parts, ", ")),
		append(attrs, slog.Uint64("count", total))...)
	logCrowd(r.log, refused)
}

// logChallenge writes one line that says it all, and the same as fields.
func logChallenge(log *slog.Logger, c status.Challenge) {
	level, outcome := slog.LevelInfo, fmt.Sprintf("answered %d", c.Status)
	if c.Status == 0 {
		outcome = "client went away"
	}
	var asked string
	if c.Upstream.IsValid() {
		asked = c.Upstream.String()
		if c.Status != 0 && upstream.Cause(c.Cause).PassedOn() {
			outcome += " by " + asked
		}
	}
	if c.Cause != "" {
		level = slog.LevelWarn
		outcome += fmt.Sprintf(" (%s: %s)", c.Cause, c.Detail)
	}
	ms := float64(c.Duration.Microseconds()) / 1000
	log.LogAttrs(context.Background(), level,
		fmt.Sprintf("challenge %s… for %q from %v: %s in %.1f ms", c.TokenPrefix, c.Host, c.Client.Addr(), outcome, ms),
		slog.String("event", "challenge"), slog.String("vip", c.VIP.String()), slog.String("client", c.Client.String()),
		slog.String("method", c.Method), slog.String("host", c.Host), slog.String("token_prefix", c.TokenPrefix),
		slog.Int("status", c.Status), slog.String("upstream", asked), slog.String("cause", c.Cause),
		slog.Float64("duration_ms", ms))
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// logWindow bounds what is refused to a line, or a few, in each.
	logWindow = time.Minute
	// challengeCheckInterval is how often the ends of challenges are looked for.
	challengeCheckInterval = 5 * time.Second
)

// stats takes what the gate tells to the board and to the log: the story of
// each challenge, and a line a minute for everything else.
type statsRecorder struct {
	log           *slog.Logger
	tracker       *tracker.Tracker
	causeContext  func() cause.Context
	onUndelivered func() // called after a challenge that did not reach the ingress

	mu              sync.Mutex
	challenges      *challengelog.ChallengeLog
	refused         map[report.Refusal]uint64
	acceptErrors    uint64 // failures of accept in this window
	lastAcceptErrno uint16 // the system's number of the last of them

	pendingOwnRequests []time.Time // when requests of this service were sent that the gate has not told of
	endedConnections   uint64      // connections of others that the gate has told of
	limitedConnections uint64      // those of them that had to make room for others
}

func newRecorder(log *slog.Logger, board *tracker.Tracker, known func() cause.Context, failed func()) *statsRecorder {
	return &statsRecorder{log: log, tracker: board, causeContext: known, onUndelivered: failed, challenges: challengelog.New(), refused: make(map[report.Refusal]uint64)}
}

// record takes what has happened at the gate.
func (r *statsRecorder) record(n *protocol.Stats) {
	r.recordCounts(n)
	for i := range n.Challenges {
		c := r.completeChallenge(&n.Challenges[i])
		r.tracker.RecordChallenge(c)
		r.mu.Lock()
		lines := r.challenges.Record(c, time.Now())
		r.mu.Unlock()
		for _, line := range lines {
			logChallenge(r.log, line)
		}
	}
	if n.UpstreamFailed {
		r.onUndelivered()
	}
}

// received is a challenge with what the gate does not report: when its request came, and
// the sentences about it.
func (r *statsRecorder) completeChallenge(reported *protocol.Challenge) report.Challenge {
	c := reported.Challenge
	c.Time = time.Now().Add(-c.Duration)
	if why := reported.Failure; why != nil {
		known := r.causeContext()
		known.Host = hostname(c.Host)
		c.Cause, c.Detail = why.Cause, why.Summary(known)
	}
	return c
}

// hostname is a Host field without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// recordCounts takes the numbers.
func (r *statsRecorder) recordCounts(n *protocol.Stats) {
	all := uint64(0)
	for i := range n.Sums {
		all += n.Sums[i].Count
	}
	r.tracker.CountForwarded(n.Sums)
	r.mu.Lock()
	n.Refused = r.withoutOwnRequests(n.Refused, time.Now())
	r.mu.Unlock()
	r.tracker.CountRefused(n.Refused)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endedConnections += all
	r.challenges.AddSuppressed(all - min(all, uint64(len(n.Challenges))))
	for _, s := range n.Refused {
		r.refused[s.Refusal] += s.Count
		r.endedConnections += s.Count
		if s.Refusal == report.SourceLimit || s.Refusal == report.Evicted {
			r.limitedConnections += s.Count
		}
	}
	if n.AcceptFailures > 0 {
		r.acceptErrors += n.AcceptFailures
		r.lastAcceptErrno = n.LastAcceptErrno
	}
}

// ownRequestTimeout is how long the gate, or the next one that finds it in the backlog, may
// take to tell of a request of this service. One that was lost with its gate is
// expected no longer.
const ownRequestTimeout = 20 * time.Second

// expectOwnRequest takes note of a request that this service is about to send: the gate counts
// it as one that is no challenge, and the operator is not to see it.
func (r *statsRecorder) expectOwnRequest(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pendingOwnRequests = append(r.pendingOwnRequests, now)
}

// withoutOwnRequests returns what was refused but for requests of this service. A gate that
// tells of fewer than were made has none subtracted that it has not told of. It
// needs mu.
func (r *statsRecorder) withoutOwnRequests(refused []report.RefusalCount, now time.Time) []report.RefusalCount {
	r.pendingOwnRequests = slices.DeleteFunc(r.pendingOwnRequests, func(sent time.Time) bool { return now.Sub(sent) > ownRequestTimeout })
	others := make([]report.RefusalCount, 0, len(refused))
	for _, s := range refused {
		if s.Refusal == report.NotChallenge && s.ClientKind == report.OtherClient {
			told := min(s.Count, uint64(len(r.pendingOwnRequests)))
			r.pendingOwnRequests = slices.Delete(r.pendingOwnRequests, 0, int(told)) //nolint:gosec // not above the length
			s.Count -= told
		}
		if s.Count > 0 {
			others = append(others, s)
		}
	}
	return others
}

// connectionCounts is how many connections of others have ended at the gates, and how many
// of them had to make room.
func (r *statsRecorder) connectionCounts() (ended, limited uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endedConnections, r.limitedConnections
}

// run ends stories, and closes a window every minute, until ctx ends.
func (r *statsRecorder) run(ctx context.Context) error {
	tick := time.NewTicker(logWindow)
	defer tick.Stop()
	look := time.NewTicker(challengeCheckInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			r.logEntries((*challengelog.ChallengeLog).Expire)
		case <-tick.C:
			r.logWindowCounts()
		}
	}
}

// recordChallenge writes the lines that time has brought.
func (r *statsRecorder) logEntries(lines func(*challengelog.ChallengeLog, time.Time) []challengelog.Entry) {
	r.mu.Lock()
	found := lines(r.challenges, time.Now())
	r.mu.Unlock()
	for _, line := range found {
		logChallenge(r.log, line)
	}
}

// drainAndLog writes all that is still to be said.
func (r *statsRecorder) finish() {
	r.logEntries((*challengelog.ChallengeLog).EndAll)
	r.logWindowCounts()
}

// logWindowCounts writes the sums of a window and begins the next.
func (r *statsRecorder) logWindowCounts() {
	r.mu.Lock()
	refused, trouble, last := r.refused, r.acceptErrors, r.lastAcceptErrno
	r.refused, r.acceptErrors = make(map[report.Refusal]uint64), 0
	r.mu.Unlock()
	if trouble > 0 {
		r.log.Error(fmt.Sprintf("connections had to wait in the backlog: accept failed %d times in the last minute: raise LimitNOFILE, or lower limits.maxConnections", trouble),
			slog.String("event", "accept"), slog.String("error", syscall.Errno(last).Error()))
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
	logConnectionLimits(r.log, refused)
}

// logChallenge writes one line that says it all, and the same as fields.
func logChallenge(log *slog.Logger, l challengelog.Entry) {
	level := slog.LevelInfo
	if l.Warn {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("event", string(l.Kind))}
	if l.Kind == challengelog.Suppressed {
		attrs = append(attrs, slog.Uint64("count", l.Suppressed))
	} else {
		attrs = append(attrs, requestAttrs(&l.Request)...)
		attrs = append(attrs, slog.Uint64("requests", l.Challenge.Requests), slog.Uint64("requests_ok", l.Challenge.Answered),
			slog.Int64("span_ms", l.Challenge.LastRequest.Sub(l.Challenge.FirstRequest).Milliseconds()))
	}
	log.LogAttrs(context.Background(), level, l.Message, attrs...)
}

func requestAttrs(c *report.Challenge) []slog.Attr {
	asked := ""
	if c.Upstream.IsValid() {
		asked = c.Upstream.String()
	}
	return []slog.Attr{
		slog.String("vip", c.VIP.String()), slog.String("client", c.Client.String()), slog.String("asker", string(c.ClientKind)),
		slog.String("method", c.Method), slog.String("host", c.Host), slog.String("token_prefix", c.TokenPrefix),
		slog.Int("status", c.Status), slog.String("outcome", string(c.Outcome)), slog.String("upstream", asked), slog.String("cause", c.Cause),
		slog.Float64("duration_ms", float64(c.Duration.Microseconds())/1000),
	}
}

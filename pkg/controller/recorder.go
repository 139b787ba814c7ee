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
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// logWindow bounds what is refused to a line, or a few, in each.
	logWindow = time.Minute
	// storyLook is how often the ends of challenges are looked for.
	storyLook = 5 * time.Second
)

// recorder takes what the gate tells to the board and to the log: the story of
// each challenge, and a line a minute for everything else.
type recorder struct {
	log    *slog.Logger
	board  *report.Board
	known  func() cause.Context
	failed func() // called after a challenge that did not reach the ingress

	mu      sync.Mutex
	stories *challengelog.Teller
	refused map[report.Refusal]uint64
	trouble uint64 // failures of accept in this window
	last    uint16 // the system's number of the last of them

	own     []time.Time // when requests of this service were sent that the gate has not told of
	ended   uint64      // connections of others that the gate has told of
	limited uint64      // those of them that had to make room for others
}

func newRecorder(log *slog.Logger, board *report.Board, known func() cause.Context, failed func()) *recorder {
	return &recorder{log: log, board: board, known: known, failed: failed, stories: challengelog.New(), refused: make(map[report.Refusal]uint64)}
}

// news takes what has happened at the gate.
func (r *recorder) news(n *protocol.News) {
	r.count(n)
	for i := range n.Challenges {
		c := r.told(&n.Challenges[i])
		r.board.Challenge(c)
		r.mu.Lock()
		lines := r.stories.Heard(c, time.Now())
		r.mu.Unlock()
		for _, line := range lines {
			logLine(r.log, line)
		}
	}
	if n.Undelivered {
		r.failed()
	}
}

// told is a challenge with what the gate does not report: when its request came, and
// the sentences about it.
func (r *recorder) told(reported *protocol.Challenge) report.Challenge {
	c := reported.Challenge
	c.Time = time.Now().Add(-c.Duration)
	if why := reported.Failure; why != nil {
		known := r.known()
		known.Host = hostname(c.Host)
		c.Cause, c.Detail = why.Cause, why.Detail(known)
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

// count takes the numbers.
func (r *recorder) count(n *protocol.News) {
	all := uint64(0)
	for i := range n.Sums {
		all += n.Sums[i].Count
	}
	r.board.Count(n.Sums)
	r.mu.Lock()
	n.Refused = r.withoutOwn(n.Refused, time.Now())
	r.mu.Unlock()
	r.board.Refused(n.Refused)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended += all
	r.stories.Unheard(all - min(all, uint64(len(n.Challenges))))
	for _, s := range n.Refused {
		r.refused[s.Refusal] += s.Count
		r.ended += s.Count
		if s.Refusal == report.SourceLimit || s.Refusal == report.Evicted {
			r.limited += s.Count
		}
	}
	if n.Failures > 0 {
		r.trouble += n.Failures
		r.last = n.LastFailure
	}
}

// ownTime is how long the gate, or the next one that finds it in the backlog, may
// take to tell of a request of this service. One that was lost with its gate is
// expected no longer.
const ownTime = 20 * time.Second

// expect takes note of a request that this service is about to send: the gate counts
// it as one that is no challenge, and the operator is not to see it.
func (r *recorder) expect(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = append(r.own, now)
}

// withoutOwn returns what was refused but for requests of this service. A gate that
// tells of fewer than were made has none subtracted that it has not told of. It
// needs mu.
func (r *recorder) withoutOwn(refused []report.RefusedSum, now time.Time) []report.RefusedSum {
	r.own = slices.DeleteFunc(r.own, func(sent time.Time) bool { return now.Sub(sent) > ownTime })
	others := make([]report.RefusedSum, 0, len(refused))
	for _, s := range refused {
		if s.Refusal == report.NotChallenge && s.Asker == report.OtherAsker {
			told := min(s.Count, uint64(len(r.own)))
			r.own = slices.Delete(r.own, 0, int(told)) //nolint:gosec // not above the length
			s.Count -= told
		}
		if s.Count > 0 {
			others = append(others, s)
		}
	}
	return others
}

// progress is how many connections of others have ended at the gates, and how many
// of them had to make room.
func (r *recorder) progress() (ended, limited uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended, r.limited
}

// run ends stories, and closes a window every minute, until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	tick := time.NewTicker(logWindow)
	defer tick.Stop()
	look := time.NewTicker(storyLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			r.tell((*challengelog.Teller).Passed)
		case <-tick.C:
			r.flush()
		}
	}
}

// tell writes the lines that time has brought.
func (r *recorder) tell(lines func(*challengelog.Teller, time.Time) []challengelog.Line) {
	r.mu.Lock()
	found := lines(r.stories, time.Now())
	r.mu.Unlock()
	for _, line := range found {
		logLine(r.log, line)
	}
}

// finish writes all that is still to be said.
func (r *recorder) finish() {
	r.tell((*challengelog.Teller).Finish)
	r.flush()
}

// flush writes the sums of a window and begins the next.
func (r *recorder) flush() {
	r.mu.Lock()
	refused, trouble, last := r.refused, r.trouble, r.last
	r.refused, r.trouble = make(map[report.Refusal]uint64), 0
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
	logCrowd(r.log, refused)
}

// logLine writes one line that says it all, and the same as fields.
func logLine(log *slog.Logger, l challengelog.Line) {
	level := slog.LevelInfo
	if l.Bad {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("event", string(l.Kind))}
	if l.Kind == challengelog.Muted {
		attrs = append(attrs, slog.Uint64("count", l.Muted))
	} else {
		attrs = append(attrs, requestAttrs(&l.Request)...)
		attrs = append(attrs, slog.Uint64("requests", l.Story.Requests), slog.Uint64("requests_ok", l.Story.Good),
			slog.Int64("span_ms", l.Story.Last.Sub(l.Story.Begun).Milliseconds()))
	}
	log.LogAttrs(context.Background(), level, l.Message, attrs...)
}

func requestAttrs(c *report.Challenge) []slog.Attr {
	asked := ""
	if c.Upstream.IsValid() {
		asked = c.Upstream.String()
	}
	return []slog.Attr{
		slog.String("vip", c.VIP.String()), slog.String("client", c.Client.String()), slog.String("asker", string(c.Asker)),
		slog.String("method", c.Method), slog.String("host", c.Host), slog.String("token_prefix", c.TokenPrefix),
		slog.Int("status", c.Status), slog.String("outcome", string(c.Outcome)), slog.String("upstream", asked), slog.String("cause", c.Cause),
		slog.Float64("duration_ms", float64(c.Duration.Microseconds())/1000),
	}
}

// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// logWindow is the time between two summaries of rejected requests.
	logWindow = time.Minute
	// challengeCheckInterval is how often the ends of open challenges are looked for.
	challengeCheckInterval = 5 * time.Second
)

// Recorder passes what the proxy process reports to the tracker and to the journal:
// the log of each challenge, and a line a minute for everything else.
type Recorder struct {
	log           *slog.Logger
	tracker       *tracker.Tracker
	causes        func() cause.Context // see process.Causes
	onUndelivered mailbox.Trigger      // fires after a challenge that did not reach the ingress
	onAttempt     func(challengelog.Attempt)
	SelfTested    *mailbox.Mailbox[protocol.SelfTested] // gets the reports about self-tests
	pending       mailbox.Trigger                       // fires while the challenge log has something to end

	mu              sync.Mutex
	challenges      *challengelog.ChallengeLog
	hosts           []string // of the configuration and of the API
	certificates    []string // the names of the API server's certificates
	rejected        map[report.Rejection]uint64
	acceptErrors    uint64 // in this window
	lastAcceptErrno uint16
}

// NewRecorder returns a recorder. causes returns what completes the failures that the proxy process
// reports, and onAttempt gets each attempt to get a certificate.
func NewRecorder(
	log *slog.Logger, tracker *tracker.Tracker, causes func() cause.Context, onUndelivered mailbox.Trigger,
	onAttempt func(challengelog.Attempt),
) *Recorder {
	return &Recorder{
		log: log, tracker: tracker, causes: causes, onUndelivered: onUndelivered, onAttempt: onAttempt,
		SelfTested: mailbox.New[protocol.SelfTested](), pending: mailbox.NewTrigger(),
		challenges: challengelog.New(), rejected: make(map[report.Rejection]uint64),
	}
}

// ObserveHosts takes the names that the configuration lists, and the API's names from files of
// this host. See [challengelog.ChallengeLog.Reserve].
func (r *Recorder) ObserveHosts(names []string) { r.reserve(&r.hosts, slices.Clone(names)) }

// ObserveCertificates takes the certificates that the API server presents.
func (r *Recorder) ObserveCertificates(all []report.Certificate) {
	names := make([]string, 0, len(all))
	for i := range all {
		if !slices.Contains(names, all[i].Name) {
			names = append(names, all[i].Name) // each VIP presents the same ones
		}
	}
	r.reserve(&r.certificates, names)
}

func (r *Recorder) reserve(observed *[]string, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(*observed, names) {
		*observed = names
		r.challenges.Reserve(slices.Concat(r.hosts, r.certificates))
	}
}

// Record takes over the statistics of the proxy process.
func (r *Recorder) Record(n *protocol.Stats) {
	r.recordCounts(n)
	for i := range n.Challenges {
		c := r.completeChallenge(&n.Challenges[i])
		r.tracker.RecordChallenge(c)
		r.logEntries(func(l *challengelog.ChallengeLog, now time.Time) []challengelog.Entry { return l.Record(c, now) })
	}
	r.firePending()
	if n.SelfTest != nil {
		r.SelfTested.Put(*n.SelfTest)
	}
	if n.UpstreamFailed {
		r.onUndelivered.Fire()
	}
}

// completeChallenge adds what the proxy process does not report: the time of the request,
// and the sentence about its failure.
func (r *Recorder) completeChallenge(reported *protocol.Challenge) report.Challenge {
	c := reported.Challenge
	c.Time = time.Now().Add(-c.Duration)
	if f := reported.Failure; f != nil {
		causes := r.causes()
		causes.Host = challengelog.Hostname(c.Host)
		c.Cause, c.Detail = f.Cause, f.Summary(causes)
	}
	return c
}

func (r *Recorder) recordCounts(n *protocol.Stats) {
	all := uint64(0)
	for i := range n.Sums {
		all += n.Sums[i].Count
	}
	r.tracker.CountForwarded(n.Sums)
	r.tracker.CountRejected(n.Rejected, time.Now())
	r.tracker.CountTestRequests(n.TestRequests, time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges.AddSuppressed(all - min(all, uint64(len(n.Challenges))))
	for _, s := range n.Rejected {
		r.rejected[s.Rejection] += s.Count
	}
	if n.AcceptFailures > 0 {
		r.acceptErrors += n.AcceptFailures
		r.lastAcceptErrno = n.LastAcceptErrno
	}
}

// Run logs the ends of challenges and a summary each minute, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	window := time.NewTicker(logWindow)
	defer window.Stop()
	var check <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.pending:
			if check == nil {
				check = time.After(challengeCheckInterval)
			}
		case <-check:
			check = nil
			r.logEntries((*challengelog.ChallengeLog).Expire)
			r.firePending()
		case <-window.C:
			r.logWindowCounts()
		}
	}
}

func (r *Recorder) firePending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.challenges.IsPending() {
		r.pending.Fire()
	}
}

// logEntries writes the entries that a step of the challenge log returns, and passes on the attempts
// that ended.
func (r *Recorder) logEntries(step func(*challengelog.ChallengeLog, time.Time) []challengelog.Entry) {
	r.mu.Lock()
	entries := step(r.challenges, time.Now())
	attempts := r.challenges.TakeAttempts()
	r.mu.Unlock()
	for i := range entries {
		logChallenge(r.log, &entries[i])
	}
	for _, a := range attempts {
		r.onAttempt(a)
	}
}

// Finish writes everything that was not written yet.
func (r *Recorder) Finish() {
	r.logEntries((*challengelog.ChallengeLog).EndAll)
	r.logWindowCounts()
}

// logWindowCounts writes the summary of a window and starts the next one.
func (r *Recorder) logWindowCounts() {
	r.mu.Lock()
	rejected, acceptErrors, errno := r.rejected, r.acceptErrors, r.lastAcceptErrno
	r.rejected, r.acceptErrors = make(map[report.Rejection]uint64), 0
	r.mu.Unlock()
	if acceptErrors > 0 {
		r.log.Error(fmt.Sprintf("accept failed %d times in the last minute: connections were queued in the backlog; "+
			"raise LimitNOFILE, or lower limits.maxConnections", acceptErrors),
			slog.String("event", "accept"), slog.String("error", syscall.Errno(errno).Error()))
	}
	if len(rejected) == 0 {
		return
	}
	total := uint64(0)
	attrs := []slog.Attr{slog.String("event", "rejected")}
	parts := make([]string, 0, len(rejected))
	for _, reason := range slices.Sorted(maps.Keys(rejected)) {
		total += rejected[reason]
		parts = append(parts, fmt.Sprintf("%d %s", rejected[reason], reason))
		attrs = append(attrs, slog.Uint64("rejected_"+strings.ReplaceAll(string(reason), "-", "_"), rejected[reason]))
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo,
		fmt.Sprintf("%d requests rejected in the last minute: %s", total, strings.Join(parts, ", ")),
		append(attrs, slog.Uint64("count", total))...)
	logConnectionLimits(r.log, rejected)
}

// logConnectionLimits names the fix for connections that were reset to make room, in case
// they were legitimate.
func logConnectionLimits(log *slog.Logger, rejected map[report.Rejection]uint64) {
	if n := rejected[report.SourceLimit]; n > 0 {
		log.Warn(fmt.Sprintf("%d connections were reset in the last minute: their source had more than limits.perSource "+
			"allows, and they waited for a slot or had sent no request; "+
			"if a load balancer or address translation hides the clients' addresses, set limits.perSource: 0", n),
			slog.String("event", "source-limit"), slog.Uint64("count", n))
	}
	if n := rejected[report.Evicted]; n > 0 {
		log.Warn(fmt.Sprintf("%d connections were reset in the last minute: more clients than limits.maxConnections "+
			"allows waited for a slot or had sent no request; "+
			"if these connections were legitimate, raise it, and LimitNOFILE, MemoryMax and GOMEMLIMIT of the unit with it", n),
			slog.String("event", "evicted"), slog.Uint64("count", n))
	}
}

// logChallenge writes an entry as one complete line, and the same as fields.
func logChallenge(log *slog.Logger, e *challengelog.Entry) {
	level := slog.LevelInfo
	if e.Warn {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("event", string(e.Kind))}
	if e.Kind == challengelog.Suppressed {
		attrs = append(attrs, slog.Uint64("count", e.Suppressed))
	} else {
		attrs = append(attrs, requestAttrs(&e.Request)...)
		attrs = append(attrs, slog.Uint64("requests", e.Challenge.Requests), slog.Uint64("requests_ok", e.Challenge.Answered),
			slog.Int64("span_ms", e.Challenge.LastRequest.Sub(e.Challenge.FirstRequest).Milliseconds()))
	}
	log.LogAttrs(context.Background(), level, e.Message, attrs...)
}

func requestAttrs(c *report.Challenge) []slog.Attr {
	upstream := ""
	if c.Upstream.IsValid() {
		upstream = c.Upstream.String()
	}
	return []slog.Attr{
		slog.String("vip", c.VIP.String()), slog.String("client", c.Client.String()),
		slog.String("client_kind", string(c.ClientKind)),
		slog.String("method", c.Method), slog.String("host", c.Host), slog.String("token_prefix", c.TokenPrefix),
		slog.Int("status", c.Status), slog.String("outcome", string(c.Outcome)),
		slog.String("upstream", upstream), slog.String("cause", c.Cause),
		slog.Float64("duration_ms", float64(c.Duration.Microseconds())/1000),
	}
}

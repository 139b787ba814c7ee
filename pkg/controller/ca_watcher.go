// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// caWatcher reads what TLS to the ingress is to be verified by, and has the gate told:
// the admin's bundle, or where there is none, what this host trusts.
type caWatcher struct {
	log         *slog.Logger
	tracker     *report.Tracker
	files       *filewatch.Watcher
	setTrust    func(*ingress.CABundle) // the gate, and those that follow it
	lastGood    trust.LastGoodCopy
	systemPaths []string // where this host's own CAs may be
	wake        chan struct{}
	interval    time.Duration // between two looks that no hint causes

	mu           sync.Mutex
	configured   bool
	bundle       *trust.Source // nil where no TLS is spoken
	system       *trust.System // nil where there is an admin's bundle
	logged       caLog
	lastReported report.Trust
	lastSet      *ingress.CABundle
}

func newCAWatcher(o Options, board *report.Tracker, tell func(*ingress.CABundle)) (*caWatcher, error) {
	files, err := filewatch.NewWithMaxDelay(o.Log, fileDebounce)
	if err != nil {
		return nil, err
	}
	return &caWatcher{
		log: o.Log, tracker: board, files: files, setTrust: tell, lastGood: trust.NewLastGoodCopy(o.StateDir, trust.LastGoodName), systemPaths: o.SystemCABundles,
		wake: make(chan struct{}, 1), interval: o.timing.FollowAgain,
	}, nil
}

// configure takes the configuration in force. The first look is over when it returns,
// so that the gate knows whom to trust before it serves anybody.
func (t *caWatcher) configure(c config.Config) {
	path := ""
	if c.UsesTLS() {
		path = c.Upstream.TrustedCA
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.configured && path == t.bundlePath() {
		return
	}
	t.configured, t.bundle, t.system = true, nil, nil
	if path == "" {
		t.files.Watch()
		t.clear()
		return
	}
	t.bundle = trust.NewSource(path, t.lastGood)
	t.readLocked(time.Now(), true)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// bundlePath needs mu.
func (t *caWatcher) bundlePath() string {
	if t.bundle == nil {
		return ""
	}
	return t.bundle.Path()
}

// clear needs mu.
func (t *caWatcher) clear() {
	t.lastSet, t.lastReported, t.logged = nil, report.Trust{Kind: report.TrustUnused}, caLog{}
	t.setTrust(nil)
	t.tracker.SetTrust(t.lastReported, time.Now())
}

// run follows the files until ctx ends.
func (t *caWatcher) run(ctx context.Context) error {
	return readOnChange(ctx, t.interval, t.files.Changed(), t.wake, t.read)
}

func (t *caWatcher) read(now time.Time, hinted bool) (again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bundle == nil {
		return 0
	}
	return t.readLocked(now, hinted)
}

// advance looks once. It needs mu.
func (t *caWatcher) readLocked(now time.Time, hinted bool) (again time.Duration) {
	changed, again := t.bundle.Refresh(now, hinted)
	paths := []string{t.bundle.Path()}
	switch {
	case !t.bundle.Absent():
		t.system = nil
	default:
		if t.system == nil {
			t.system, changed = trust.NewSystem(t.systemPaths), true
		}
		other, soon := t.system.Refresh(now, hinted)
		changed, again = changed || other, shorterWait(again, soon)
		paths = append(paths, t.system.Paths()...)
	}
	t.files.Watch(paths...)
	if changed {
		t.publish()
	}
	if err := t.bundle.SaveLastGood(); err != nil {
		t.log.Warn("a later start with a refused file of CAs would find no last good one", slog.String("event", "trust"), slog.Any("error", err))
	}
	return again
}

// shorterWait is the shorter of two waits, of which 0 means none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// publish tells the gate first: that is what somebody may wait for. It needs mu.
func (t *caWatcher) publish() {
	next, handed := t.summarize()
	fresh := !sameCAs(t.lastSet, handed)
	next.Since = t.lastReported.Since
	if fresh {
		t.setTrust(handed)
		next.Since = time.Now()
	}
	t.lastSet, t.lastReported = handed, next
	t.tracker.SetTrust(next, time.Now())
	t.logged.logChange(t.log, next, fresh)
}

// summarize sums up what the looks have found. It needs mu.
func (t *caWatcher) summarize() (report.Trust, *ingress.CABundle) {
	verdict := t.bundle.Assessment()
	s := report.Trust{Kind: report.TrustAdmin, Path: t.bundle.Path(), Source: t.bundle.Origin(), IgnoredTotal: verdict.SkippedCount}
	for _, l := range verdict.Skipped[:min(report.MaxIgnoredCertificates, len(verdict.Skipped))] {
		s.Ignored = append(s.Ignored, report.IgnoredCertificate(l))
	}
	why := t.bundle.Err()
	roots, whose := trust.EffectiveRoots(t.bundle, t.system)
	switch {
	case t.system != nil:
		s.Kind, s.Source = report.TrustSystem, ""
		if at := t.system.Source(); at != nil {
			s.Source = at.Path()
		}
		if err := t.system.Err(); err != nil {
			why = err // the one that counts for what is in force
		}
	case !t.bundle.Loaded():
		s.Kind, s.Source = report.TrustNone, ""
	case t.bundle.UsesLastGood():
		s.Kind = report.TrustLastGood
	}
	if len(roots) == 0 {
		s.Kind, s.Source = report.TrustNone, ""
	}
	if why != nil {
		s.Error = report.OneLine(why.Error())
		var refusal *trust.Refusal
		s.NoUsableCertificate = errors.As(why, &refusal) && refusal.NoneTrusted
	}
	s.Certificates = len(roots)
	for _, c := range roots[:min(maxReportedSubjects, len(roots))] {
		s.Subjects = append(s.Subjects, c.Subject)
	}
	return s, trust.NewCABundle(whose, roots)
}

// maxReportedSubjects is how many CAs the status names.
const maxReportedSubjects = 3

// caLog is what was said of the file as it is.
type caLog struct {
	leftOut   map[report.IgnoredCertificate]bool
	total     int
	lastError string
}

// logEvent has the journal know what is new.
func (s *caLog) logChange(log *slog.Logger, t report.Trust, fresh bool) {
	s.logLeftOut(log, t)
	switch {
	case t.Error != "" && t.Error != s.lastError:
		_, message := t.Evaluate()
		log.Error(message, slog.String("event", "trust-refused"), slog.String("path", t.Path), slog.Int("count", t.Certificates))
	case t.Error != "":
	case fresh || s.lastError != "":
		log.Info("trusted for TLS to the ingress: "+caMessage(t), slog.String("event", "trust"),
			slog.String("path", t.Path), slog.String("source", t.Source), slog.Int("count", t.Certificates), slog.Int("left_out", t.IgnoredTotal))
	}
	s.lastError = t.Error
}

func caMessage(t report.Trust) string {
	_, message := t.Evaluate()
	if t.Kind == report.TrustAdmin && t.IgnoredTotal > 0 {
		message += fmt.Sprintf("; left out: %d", t.IgnoredTotal)
	}
	return message
}

// logLeftOut names each certificate once, for as long as it is left out.
func (s *caLog) logLeftOut(log *slog.Logger, t report.Trust) {
	if t.IgnoredTotal == 0 && t.Error != "" {
		return // the file cannot be judged: what was said may hold again
	}
	now := make(map[report.IgnoredCertificate]bool, len(t.Ignored))
	news := 0
	for _, l := range t.Ignored {
		line := l.Line
		l.Line = 0 // it may stand elsewhere now
		now[l] = true
		if s.leftOut[l] {
			continue
		}
		news++
		log.Warn(fmt.Sprintf("%s is left out: %s", describeLeftOut(l, line, t.Path), l.Reason), slog.String("event", "trust-left-out"),
			slog.String("path", t.Path), slog.String("subject", l.Subject), slog.String("serial", l.Serial), slog.String("reason", l.Reason))
	}
	if more := t.IgnoredTotal - len(t.Ignored); more > 0 && (news > 0 || t.IgnoredTotal != s.total) {
		log.Warn(fmt.Sprintf("%d more certificates of %s are left out", more, t.Path), slog.String("event", "trust-left-out"), slog.String("path", t.Path), slog.Int("count", more))
	}
	s.leftOut, s.total = now, t.IgnoredTotal
}

func describeLeftOut(l report.IgnoredCertificate, line int, path string) string {
	if l.Subject == "" {
		return fmt.Sprintf("the PEM block in line %d of %s", line, path)
	}
	return fmt.Sprintf("%q, serial %s, in line %d of %s", l.Subject, l.Serial, line, path)
}

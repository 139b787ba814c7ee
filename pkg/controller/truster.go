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
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/settings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// truster reads what TLS to the ingress is to be verified by, and has the gate told:
// the admin's bundle, or where there is none, what this host trusts.
type truster struct {
	log    *slog.Logger
	board  *report.Board
	files  *filewatch.Watcher
	tell   func(*protocol.Trust) // the gate, and those that follow it
	kept   trust.Kept
	system []string // where this host's own CAs may be
	wake   chan struct{}
	again  time.Duration // between two looks that no hint causes

	mu     sync.Mutex
	begun  bool
	admin  *trust.Source // nil where no TLS is spoken
	host   *trust.System // nil where there is an admin's bundle
	said   trustSaid
	last   report.Trust
	handed *protocol.Trust
}

func newTruster(o Options, board *report.Board, tell func(*protocol.Trust)) (*truster, error) {
	files, err := filewatch.NewWithin(o.Log, followDelay)
	if err != nil {
		return nil, err
	}
	return &truster{
		log: o.Log, board: board, files: files, tell: tell, kept: trust.KeptIn(o.StateDir, trust.KeptName), system: o.SystemTrust,
		wake: make(chan struct{}, 1), again: o.timing.FollowAgain,
	}, nil
}

// configure takes the configuration in force. The first look is over when it returns,
// so that the gate knows whom to trust before it serves anybody.
func (t *truster) configure(c config.Config) {
	path := ""
	if c.SpeaksTLS() {
		path = c.Upstream.TrustedCA
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun && path == t.path() {
		return
	}
	t.begun, t.admin, t.host = true, nil, nil
	if path == "" {
		t.files.Watch()
		t.unused()
		return
	}
	t.admin = trust.NewSource(path, t.kept)
	t.pass(time.Now(), true)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// path needs mu.
func (t *truster) path() string {
	if t.admin == nil {
		return ""
	}
	return t.admin.Path()
}

// unused needs mu.
func (t *truster) unused() {
	t.handed, t.last, t.said = nil, report.Trust{Kind: report.TrustUnused}, trustSaid{}
	t.tell(nil)
	t.board.SetTrust(t.last, time.Now())
}

// run follows the files until ctx ends.
func (t *truster) run(ctx context.Context) error {
	return follow(ctx, t.again, t.files.Changed(), t.wake, t.look)
}

func (t *truster) look(now time.Time, hinted bool) (again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admin == nil {
		return 0
	}
	return t.pass(now, hinted)
}

// pass looks once. It needs mu.
func (t *truster) pass(now time.Time, hinted bool) (again time.Duration) {
	changed, again := t.admin.Look(now, hinted)
	paths := []string{t.admin.Path()}
	switch {
	case !t.admin.Absent():
		t.host = nil
	default:
		if t.host == nil {
			t.host, changed = trust.NewSystem(t.system), true
		}
		other, soon := t.host.Look(now, hinted)
		changed, again = changed || other, sooner(again, soon)
		paths = append(paths, t.host.Paths()...)
	}
	t.files.Watch(paths...)
	if changed {
		t.publish()
	}
	if err := t.admin.Keep(); err != nil {
		t.log.Warn("a later start with a refused file of CAs would find no last good one", slog.String("event", "trust"), slog.Any("error", err))
	}
	return again
}

// sooner is the shorter of two waits, of which 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// publish tells the gate first: that is what somebody may wait for. It needs mu.
func (t *truster) publish() {
	next, handed := t.inForce()
	fresh := !sameTrust(t.handed, handed)
	next.Since = t.last.Since
	if fresh {
		t.tell(handed)
		next.Since = time.Now()
	}
	t.handed, t.last = handed, next
	t.board.SetTrust(next, time.Now())
	t.said.say(t.log, next, fresh)
}

// inForce sums up what the looks have found. It needs mu.
func (t *truster) inForce() (report.Trust, *protocol.Trust) {
	verdict := t.admin.Verdict()
	s := report.Trust{Kind: report.TrustAdmin, Path: t.admin.Path(), Source: t.admin.Origin(), LeftOutTotal: verdict.Dropped}
	for _, l := range verdict.LeftOut[:min(report.MaxTrustLeftOut, len(verdict.LeftOut))] {
		s.LeftOut = append(s.LeftOut, report.TrustLeftOut(l))
	}
	why := t.admin.Err()
	roots, whose := trust.InForce(t.admin, t.host)
	switch {
	case t.host != nil:
		s.Kind, s.Source = report.TrustSystem, ""
		if at := t.host.Source(); at != nil {
			s.Source = at.Path()
		}
		if err := t.host.Err(); err != nil {
			why = err // the one that counts for what is in force
		}
	case !t.admin.Known():
		s.Kind, s.Source = report.TrustNone, ""
	case t.admin.Remembers():
		s.Kind = report.TrustLastGood
	}
	if len(roots) == 0 {
		s.Kind, s.Source = report.TrustNone, ""
	}
	if why != nil {
		s.Error = report.OneLine(why.Error())
		var refusal *trust.Refusal
		s.NothingLeft = errors.As(why, &refusal) && refusal.NothingLeft
	}
	s.Certificates = len(roots)
	for _, c := range roots[:min(shownSubjects, len(roots))] {
		s.Subjects = append(s.Subjects, c.Subject)
	}
	return s, settings.Trust(whose, roots)
}

// shownSubjects is how many CAs the status names.
const shownSubjects = 3

// trustSaid is what was said of the file as it is.
type trustSaid struct {
	leftOut map[report.TrustLeftOut]bool
	total   int
	refused string
}

// say has the journal know what is new.
func (s *trustSaid) say(log *slog.Logger, t report.Trust, fresh bool) {
	s.sayLeftOut(log, t)
	switch {
	case t.Error != "" && t.Error != s.refused:
		_, message := t.Judge()
		log.Error(message, slog.String("event", "trust-refused"), slog.String("path", t.Path), slog.Int("count", t.Certificates))
	case t.Error != "":
	case fresh || s.refused != "":
		log.Info("trusted for TLS to the ingress: "+described(t), slog.String("event", "trust"),
			slog.String("path", t.Path), slog.String("source", t.Source), slog.Int("count", t.Certificates), slog.Int("left_out", t.LeftOutTotal))
	}
	s.refused = t.Error
}

func described(t report.Trust) string {
	_, message := t.Judge()
	if t.Kind == report.TrustAdmin && t.LeftOutTotal > 0 {
		message += fmt.Sprintf("; left out: %d", t.LeftOutTotal)
	}
	return message
}

// sayLeftOut names each certificate once, for as long as it is left out.
func (s *trustSaid) sayLeftOut(log *slog.Logger, t report.Trust) {
	if t.LeftOutTotal == 0 && t.Error != "" {
		return // the file cannot be judged: what was said may hold again
	}
	now := make(map[report.TrustLeftOut]bool, len(t.LeftOut))
	news := 0
	for _, l := range t.LeftOut {
		line := l.Line
		l.Line = 0 // it may stand elsewhere now
		now[l] = true
		if s.leftOut[l] {
			continue
		}
		news++
		log.Warn(fmt.Sprintf("%s is left out: %s", leftOut(l, line, t.Path), l.Reason), slog.String("event", "trust-left-out"),
			slog.String("path", t.Path), slog.String("subject", l.Subject), slog.String("serial", l.Serial), slog.String("reason", l.Reason))
	}
	if more := t.LeftOutTotal - len(t.LeftOut); more > 0 && (news > 0 || t.LeftOutTotal != s.total) {
		log.Warn(fmt.Sprintf("%d more certificates of %s are left out", more, t.Path), slog.String("event", "trust-left-out"), slog.String("path", t.Path), slog.Int("count", more))
	}
	s.leftOut, s.total = now, t.LeftOutTotal
}

func leftOut(l report.TrustLeftOut, line int, path string) string {
	if l.Subject == "" {
		return fmt.Sprintf("the PEM block in line %d of %s", line, path)
	}
	return fmt.Sprintf("%q, serial %s, in line %d of %s", l.Subject, l.Serial, line, path)
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// fileReadInterval is when files of CAs are read again without a file event.
	fileReadInterval = 30 * time.Second
	// fileDebounce bounds how long a stream of file events delays a read: a changed CA
	// bundle must be in force within a second, which includes the time to settle.
	fileDebounce = 250 * time.Millisecond
)

// caWatcher reads the CAs that TLS to the ingress is verified with: the administrator's
// bundle or, without a bundle, the CAs that this host trusts. It adds them to the
// settings of the proxy. Everything but settings belongs to the goroutine of run.
type caWatcher struct {
	log         *slog.Logger
	tracker     *tracker.Tracker
	files       *filewatch.Watcher
	lastGood    trust.LastGoodCopy
	systemPaths []string // where the CAs of this host can be
	interval    time.Duration
	save        saveFunc
	settings    *mailbox[proxySettings] // without CAs
	next        func(proxySettings)     // gets them with CAs: the egress watcher

	work activity

	configured   bool
	current      proxySettings
	bundle       *trust.Source // nil without TLS
	system       *trust.System // nil while there is a bundle
	logged       caLog
	lastReported report.Trust
}

func newCAWatcher(o Options, tracker *tracker.Tracker, save saveFunc, next func(proxySettings)) (*caWatcher, error) {
	files, err := filewatch.New(o.Log, fileDebounce)
	if err != nil {
		return nil, err
	}
	return &caWatcher{
		log: o.Log, tracker: tracker, files: files, lastGood: trust.NewLastGoodCopy(o.StateDir, trust.LastGoodName), systemPaths: o.SystemCABundles,
		interval: o.timing.CAReadInterval, save: save, settings: newMailbox[proxySettings](), next: next,
	}, nil
}

// run reads the files after file events, at intervals, and when the last read requests
// it, until ctx ends.
func (w *caWatcher) run(ctx context.Context) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	soon := time.NewTimer(w.interval)
	defer soon.Stop()
	for {
		handle := func(now time.Time) time.Duration { return w.read(now, false) }
		select {
		case <-ctx.Done():
			return nil
		case s := <-w.settings.values:
			handle = func(now time.Time) time.Duration { return w.apply(s, now) }
		case <-w.files.Changed():
			handle = func(now time.Time) time.Duration { return w.read(now, true) }
		case <-tick.C:
		case <-soon.C:
		}
		w.work.begin()
		retry := handle(time.Now())
		w.work.end()
		if retry > 0 {
			soon.Reset(min(retry, w.interval))
		} else {
			soon.Stop()
		}
	}
}

// apply adds the CAs to the settings and passes them on. The files are read first if the
// configuration names another bundle.
func (w *caWatcher) apply(s proxySettings, now time.Time) (retry time.Duration) {
	path := ""
	if s.config.UsesTLS() {
		path = s.config.Upstream.TrustedCA
	}
	s.cas = w.current.cas
	w.current = s
	if w.configured && path == w.bundlePath() {
		w.next(w.current)
		if w.bundle == nil {
			return 0
		}
		retry, _ = w.refresh(now, false)
		return retry
	}
	w.configured, w.bundle, w.system = true, nil, nil
	if path == "" {
		w.clear()
		return 0
	}
	w.bundle = trust.NewSource(path, w.lastGood)
	retry, fresh := w.refresh(now, true)
	if !fresh {
		w.next(w.current)
	}
	return retry
}

func (w *caWatcher) bundlePath() string {
	if w.bundle == nil {
		return ""
	}
	return w.bundle.Path()
}

// clear removes the CAs of a configuration without TLS.
func (w *caWatcher) clear() {
	w.files.Watch()
	w.current.cas, w.lastReported, w.logged = nil, report.Trust{Kind: report.TrustUnused}, caLog{}
	w.next(w.current)
	w.tracker.SetTrust(w.lastReported, time.Now())
}

func (w *caWatcher) read(now time.Time, changed bool) (retry time.Duration) {
	if w.bundle == nil {
		return 0
	}
	retry, _ = w.refresh(now, changed)
	return retry
}

// refresh reads the files and publishes what has changed. fresh reports whether other CAs
// were passed on.
func (w *caWatcher) refresh(now time.Time, fileEvent bool) (retry time.Duration, fresh bool) {
	changed, retry := w.bundle.Refresh(now, fileEvent)
	paths := []string{w.bundle.Path()}
	if w.bundle.Absent() {
		if w.system == nil {
			w.system, changed = trust.NewSystem(w.systemPaths), true
		}
		other, soon := w.system.Refresh(now, fileEvent)
		changed, retry = changed || other, settled.ShorterWait(retry, soon)
		paths = append(paths, w.system.Paths()...)
	} else {
		w.system = nil
	}
	w.files.Watch(paths...)
	if changed {
		fresh = w.publish()
	}
	if write := w.bundle.UnsavedCopy(); write != nil {
		w.save("trust", "last good CA bundle", write)
	}
	return retry, fresh
}

// publish passes other CAs on before it reports them.
func (w *caWatcher) publish() (fresh bool) {
	next, cas := w.summarize()
	fresh = !sameCAs(w.current.cas, cas)
	next.Since = w.lastReported.Since
	if fresh {
		w.current.cas = cas
		w.next(w.current)
		next.Since = time.Now()
	}
	w.lastReported = next
	w.tracker.SetTrust(next, time.Now())
	w.logged.logChange(w.log, next, fresh)
	return fresh
}

// summarize returns what the reads have found, for the report and for the proxy.
func (w *caWatcher) summarize() (report.Trust, *ingress.CABundle) {
	assessment := w.bundle.Assessment()
	s := report.Trust{Kind: report.TrustAdmin, Path: w.bundle.Path(), Source: w.bundle.Origin(), IgnoredTotal: assessment.SkippedCount}
	for _, skipped := range assessment.Skipped[:min(report.MaxIgnoredCertificates, len(assessment.Skipped))] {
		s.Ignored = append(s.Ignored, report.IgnoredCertificate(skipped))
	}
	err := w.bundle.Err()
	roots, source := trust.EffectiveRoots(w.bundle, w.system)
	switch {
	case w.system != nil:
		s.Kind, s.Source = report.TrustSystem, ""
		if file := w.system.Source(); file != nil {
			s.Source = file.Path()
		}
		if systemErr := w.system.Err(); systemErr != nil {
			err = systemErr // this one is about what is in force
		}
	case !w.bundle.Loaded():
		s.Kind, s.Source = report.TrustNone, ""
	case w.bundle.UsesLastGood():
		s.Kind = report.TrustLastGood
	}
	if len(roots) == 0 {
		s.Kind, s.Source = report.TrustNone, ""
	}
	if err != nil {
		s.Error = printable.Line(err.Error())
		var rejection *trust.Rejection
		s.NoUsableCertificate = errors.As(err, &rejection) && rejection.NoneTrusted
	}
	s.Certificates = len(roots)
	for _, c := range roots[:min(maxReportedSubjects, len(roots))] {
		s.Subjects = append(s.Subjects, c.Subject)
	}
	return s, trust.NewCABundle(source, roots)
}

// maxReportedSubjects is how many CAs the status names.
const maxReportedSubjects = 3

// caLog is what was logged about the current file.
type caLog struct {
	ignored   map[report.IgnoredCertificate]bool
	total     int
	lastError string
}

// logChange logs what has changed.
func (l *caLog) logChange(log *slog.Logger, t report.Trust, fresh bool) {
	l.logIgnored(log, t)
	switch {
	case t.Error != "" && t.Error != l.lastError:
		_, message := t.Evaluate()
		log.Error(message, slog.String("event", "trust-rejected"), slog.String("path", t.Path), slog.Int("count", t.Certificates))
	case t.Error != "":
	case fresh || l.lastError != "":
		log.Info("trusted for TLS to the ingress: "+caMessage(t), slog.String("event", "trust"),
			slog.String("path", t.Path), slog.String("source", t.Source), slog.Int("count", t.Certificates), slog.Int("ignored", t.IgnoredTotal))
	}
	l.lastError = t.Error
}

func caMessage(t report.Trust) string {
	_, message := t.Evaluate()
	if t.Kind == report.TrustAdmin && t.IgnoredTotal > 0 {
		message += fmt.Sprintf("; ignored certificates: %d", t.IgnoredTotal)
	}
	return message
}

// logIgnored logs each certificate once for as long as it is ignored.
func (l *caLog) logIgnored(log *slog.Logger, t report.Trust) {
	if t.IgnoredTotal == 0 && t.Error != "" {
		return // the file cannot be assessed: the log can become correct again
	}
	now := make(map[report.IgnoredCertificate]bool, len(t.Ignored))
	added := 0
	for _, c := range t.Ignored {
		line := c.Line
		c.Line = 0 // it can move within the file
		now[c] = true
		if l.ignored[c] {
			continue
		}
		added++
		log.Warn(fmt.Sprintf("%s is ignored: %s", describeIgnored(c, line, t.Path), c.Reason), slog.String("event", "trust-ignored"),
			slog.String("path", t.Path), slog.String("subject", c.Subject), slog.String("serial", c.Serial), slog.String("reason", c.Reason))
	}
	if more := t.IgnoredTotal - len(t.Ignored); more > 0 && (added > 0 || t.IgnoredTotal != l.total) {
		log.Warn(fmt.Sprintf("%d more certificates of %s are ignored", more, t.Path), slog.String("event", "trust-ignored"), slog.String("path", t.Path), slog.Int("count", more))
	}
	l.ignored, l.total = now, t.IgnoredTotal
}

func describeIgnored(c report.IgnoredCertificate, line int, path string) string {
	if c.Subject == "" {
		return fmt.Sprintf("the PEM block in line %d of %s", line, path)
	}
	return fmt.Sprintf("%q, serial %s, in line %d of %s", c.Subject, c.Serial, line, path)
}

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
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
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

	configured   bool
	current      proxySettings
	bundle       *trust.Source // nil without TLS
	system       *trust.System // nil while there is a bundle
	logged       caLog
	lastReported report.Trust
}

func newCAWatcher(o Options, tracker *tracker.Tracker, save saveFunc, next func(proxySettings)) (*caWatcher, error) {
	files, err := filewatch.NewWithMaxDelay(o.Log, fileDebounce)
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
func (t *caWatcher) run(ctx context.Context) error {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	soon := time.NewTimer(t.interval)
	defer soon.Stop()
	for {
		var retry time.Duration
		select {
		case <-ctx.Done():
			return nil
		case s := <-t.settings.values:
			retry = t.apply(s, time.Now())
		case <-t.files.Changed():
			retry = t.read(time.Now(), true)
		case now := <-tick.C:
			retry = t.read(now, false)
		case now := <-soon.C:
			retry = t.read(now, false)
		}
		if retry > 0 {
			soon.Reset(min(retry, t.interval))
		} else {
			soon.Stop()
		}
	}
}

// apply adds the CAs to the settings and passes them on. The files are read first if the
// configuration names another bundle.
func (t *caWatcher) apply(s proxySettings, now time.Time) (retry time.Duration) {
	path := ""
	if s.config.UsesTLS() {
		path = s.config.Upstream.TrustedCA
	}
	s.cas = t.current.cas
	t.current = s
	if t.configured && path == t.bundlePath() {
		t.next(t.current)
		if t.bundle == nil {
			return 0
		}
		retry, _ = t.refresh(now, false)
		return retry
	}
	t.configured, t.bundle, t.system = true, nil, nil
	if path == "" {
		t.clear()
		return 0
	}
	t.bundle = trust.NewSource(path, t.lastGood)
	retry, fresh := t.refresh(now, true)
	if !fresh {
		t.next(t.current)
	}
	return retry
}

func (t *caWatcher) bundlePath() string {
	if t.bundle == nil {
		return ""
	}
	return t.bundle.Path()
}

// clear removes the CAs of a configuration without TLS.
func (t *caWatcher) clear() {
	t.files.Watch()
	t.current.cas, t.lastReported, t.logged = nil, report.Trust{Kind: report.TrustUnused}, caLog{}
	t.next(t.current)
	t.tracker.SetTrust(t.lastReported, time.Now())
}

func (t *caWatcher) read(now time.Time, changed bool) (retry time.Duration) {
	if t.bundle == nil {
		return 0
	}
	retry, _ = t.refresh(now, changed)
	return retry
}

// refresh reads the files and publishes what has changed. fresh reports whether other CAs
// were passed on.
func (t *caWatcher) refresh(now time.Time, fileEvent bool) (retry time.Duration, fresh bool) {
	changed, retry := t.bundle.Refresh(now, fileEvent)
	paths := []string{t.bundle.Path()}
	if t.bundle.Absent() {
		if t.system == nil {
			t.system, changed = trust.NewSystem(t.systemPaths), true
		}
		other, soon := t.system.Refresh(now, fileEvent)
		changed, retry = changed || other, reconcile.ShorterWait(retry, soon)
		paths = append(paths, t.system.Paths()...)
	} else {
		t.system = nil
	}
	t.files.Watch(paths...)
	if changed {
		fresh = t.publish()
	}
	if write := t.bundle.UnsavedCopy(); write != nil {
		t.save("trust", "last good CA bundle", write)
	}
	return retry, fresh
}

// publish passes other CAs on before it reports them.
func (t *caWatcher) publish() (fresh bool) {
	next, cas := t.summarize()
	fresh = !sameCAs(t.current.cas, cas)
	next.Since = t.lastReported.Since
	if fresh {
		t.current.cas = cas
		t.next(t.current)
		next.Since = time.Now()
	}
	t.lastReported = next
	t.tracker.SetTrust(next, time.Now())
	t.logged.logChange(t.log, next, fresh)
	return fresh
}

// summarize returns what the reads have found, for the report and for the proxy.
func (t *caWatcher) summarize() (report.Trust, *ingress.CABundle) {
	assessment := t.bundle.Assessment()
	s := report.Trust{Kind: report.TrustAdmin, Path: t.bundle.Path(), Source: t.bundle.Origin(), IgnoredTotal: assessment.SkippedCount}
	for _, skipped := range assessment.Skipped[:min(report.MaxIgnoredCertificates, len(assessment.Skipped))] {
		s.Ignored = append(s.Ignored, report.IgnoredCertificate(skipped))
	}
	err := t.bundle.Err()
	roots, source := trust.EffectiveRoots(t.bundle, t.system)
	switch {
	case t.system != nil:
		s.Kind, s.Source = report.TrustSystem, ""
		if file := t.system.Source(); file != nil {
			s.Source = file.Path()
		}
		if systemErr := t.system.Err(); systemErr != nil {
			err = systemErr // this one is about what is in force
		}
	case !t.bundle.Loaded():
		s.Kind, s.Source = report.TrustNone, ""
	case t.bundle.UsesLastGood():
		s.Kind = report.TrustLastGood
	}
	if len(roots) == 0 {
		s.Kind, s.Source = report.TrustNone, ""
	}
	if err != nil {
		s.Error = printable.Line(err.Error())
		var refusal *trust.Refusal
		s.NoUsableCertificate = errors.As(err, &refusal) && refusal.NoneTrusted
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
		log.Error(message, slog.String("event", "trust-refused"), slog.String("path", t.Path), slog.Int("count", t.Certificates))
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

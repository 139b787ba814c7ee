// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/asyncread"
	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Output is what is trusted with the bundle at Path, or without it.
type Output struct {
	Path   string            // of the Input; empty: no TLS to the ingress
	CAs    *ingress.CABundle // nil without Path
	Report report.Trust
}

// Options are the dependencies of a Watcher.
type Options struct {
	Log             *slog.Logger
	StateDir        string
	SystemCABundles []string      // where the CAs of this host can be
	ReadInterval    time.Duration // of the files without a file event
	StallTimeout    time.Duration // of a read
	// Save queues a write in the state directory for another goroutine.
	Save func(event, name string, write func() error)
}

// Watcher reads the CAs. Everything belongs to the goroutine of Run, or to the goroutine of the
// current read.
type Watcher struct {
	Options

	files  *filewatch.Watcher
	reads  *asyncread.Reader[reading]
	reader reader

	last    Output
	read    reading // the last one
	stalled bool    // the read that runs takes longer than StallTimeout
	logged  caLog
}

// New returns a watcher.
func New(o Options) (*Watcher, error) {
	files, err := filewatch.New(o.Log)
	if err != nil {
		return nil, err
	}
	return &Watcher{
		Options: o, files: files, reads: asyncread.New[reading](files.Changed(), o.ReadInterval, o.StallTimeout),
		reader: reader{
			files: files, lastGood: trust.NewLastGoodCopy(o.StateDir, trust.LastGoodName), systemPaths: o.SystemCABundles,
		},
	}, nil
}

// Run reads the CAs for each path of a bundle, empty without TLS to the ingress, and again after
// file events and at intervals, until ctx ends. It passes on what changes.
func (w *Watcher) Run(ctx context.Context, paths <-chan string, output func(Output)) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = w.files.Run(ctx) })
	running.Go(func() { w.reads.Run(ctx) })
	path, known := "", false
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-paths:
			if known && next == path {
				continue
			}
			path, known = next, true
			w.reads.Start(func() (reading, time.Duration) { return w.reader.read(next, time.Now()) })
		case r := <-w.reads.Results():
			w.stalled = r.Stalled
			if r.Value.path != path || w.stalled {
				break
			}
			w.read = r.Value
			if w.read.save != nil {
				w.Save("trust", "last good CA bundle", w.read.save)
			}
		}
		w.publish(output)
	}
}

// publish passes other CAs on before it logs them.
func (w *Watcher) publish(output func(Output)) {
	next := Output{w.read.path, w.read.cas, w.read.report}
	if w.stalled {
		next.Report.NoUsableCertificate = false
		next.Report.Error = fmt.Sprintf("reading upstream.trustedCA or the CAs of this host has not finished after %v, "+
			"and new configurations wait for it: check the file systems of these files", w.StallTimeout)
		if next.Report.Certificates == 0 {
			next.Report.Kind = report.TrustNone
		}
	}
	if next.Report.Kind == "" {
		return // nothing was read yet
	}
	changed := next.CAs != nil && (w.last.CAs == nil || !next.CAs.Equal(*w.last.CAs))
	next.Report.Since = w.last.Report.Since
	switch {
	case next.CAs == nil:
		next.Report.Since = time.Time{}
	case changed:
		next.Report.Since = time.Now()
	}
	if reflect.DeepEqual(next, w.last) {
		return
	}
	w.last = next
	output(next)
	if next.Report.Kind == report.TrustUnused {
		w.logged = caLog{}
		return
	}
	w.logged.logChange(w.Log, next.Report, changed)
}

// reading is the result of a read: an immutable value.
type reading struct {
	path   string
	cas    *ingress.CABundle
	report report.Trust
	save   func() error // writes the last good copy; nil: it is written
}

// reader reads the files. One goroutine at a time uses it.
type reader struct {
	files       *filewatch.Watcher
	lastGood    trust.LastGoodCopy
	systemPaths []string

	bundle *trust.Source // nil without TLS
	system *trust.System // nil while there is a bundle
}

// read returns also the delay of the next read; 0: ReadInterval.
func (r *reader) read(path string, now time.Time) (result reading, next time.Duration) {
	if path == "" {
		r.bundle, r.system = nil, nil
		r.files.Watch()
		return reading{report: report.Trust{Kind: report.TrustUnused}}, 0
	}
	if r.bundle == nil || r.bundle.Path() != path {
		r.bundle, r.system = trust.NewSource(path, r.lastGood), nil
	}
	next = r.bundle.Refresh(now)
	paths := []string{path}
	if r.bundle.Absent() {
		if r.system == nil {
			r.system = trust.NewSystem(r.systemPaths)
		}
		next = settled.ShorterWait(next, r.system.Refresh(now))
		paths = append(paths, r.system.Paths()...)
	} else {
		r.system = nil
	}
	r.files.Watch(paths...)
	result = reading{path: path, save: r.bundle.UnsavedCopy()}
	roots, source := trust.EffectiveRoots(r.bundle, r.system)
	result.report, result.cas = trust.Report(r.bundle, r.system), trust.NewCABundle(source, roots)
	return result, next
}

// SPDX-License-Identifier: Apache-2.0

// Package filewatch owns the hint that one of a set of files may have changed.
//
// It watches directories, not files: a file is replaced by rename, a
// ConfigMap-style mount flips a "..data" link, so may be any other link on the
// way, and a file that is absent today may come tomorrow, together with its
// directory. A hint says nothing about
// what has changed; whoever gets one reads again and compares. Hints can be
// lost (inotify limits, network file systems), so readers look again now and
// then as well.
package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// debounce is how long a file is left alone after its last event: an editor or a
// template renderer makes several in a row.
const debounce = 50 * time.Millisecond

// MaxDelay bounds how long a stream of events can hold a hint back, unless the
// watcher is to be quicker.
const MaxDelay = time.Second

// Watcher hints that one of the watched files may have changed.
type Watcher struct {
	log      *slog.Logger
	maxDelay time.Duration // the longest
	notify   *fsnotify.Watcher
	changed  chan struct{}

	mu    sync.Mutex
	paths []string
	names map[string]map[string]bool // directory → names in it that matter
}

// New returns a watcher that watches nothing yet. It has to be Run.
func New(log *slog.Logger) (*Watcher, error) { return NewWithMaxDelay(log, MaxDelay) }

// NewWithMaxDelay is [New] for a watcher whose hints no stream of events holds back for
// longer than delay.
func NewWithMaxDelay(log *slog.Logger, delay time.Duration) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w: raise fs.inotify.max_user_instances", err)
	}
	return &Watcher{log: log, maxDelay: delay, notify: notify, changed: make(chan struct{}, 1)}, nil
}

// Changed yields a value after something may have changed; hints that nobody
// has waited for are folded into one.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Watch sets the absolute paths to watch, instead of those before. A path may
// be absent, and so may its directories; of a directory, every entry matters.
// Paths that were not watched before give a hint at once: they may have
// changed since the caller read them.
func (w *Watcher) Watch(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := slices.ContainsFunc(paths, func(p string) bool { return !slices.Contains(w.paths, p) })
	w.paths = slices.Clone(paths)
	w.updateWatches()
	if fresh {
		w.signal()
	}
}

func (w *Watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// updateWatches derives the directories from the paths as they are now and brings the
// kernel's watches in line.
func (w *Watcher) updateWatches() {
	names := make(map[string]map[string]bool)
	for _, path := range w.paths {
		for _, step := range pathAndLinks(path) {
			addWatchedNames(names, step)
		}
	}
	for dir := range w.names {
		if names[dir] == nil {
			_ = w.notify.Remove(dir) // it may be gone, and its watch with it
		}
	}
	for dir := range names {
		// Adding again is harmless and revives the watch of a directory that
		// was removed and made anew.
		if err := w.notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && w.names[dir] == nil {
			w.log.Warn(fmt.Sprintf("cannot watch %s; its files are read every 30 s instead", dir),
				slog.String("event", "file-watch"), slog.String("path", dir), slog.Any("error", err))
		}
	}
	w.names = names
}

// anyName stands for all entries of a directory; no file can have it as its
// name.
const anyName = "/"

// addWatchedNames adds what to look at for path: its name in its directory or, as
// long as that is absent, the next missing name in the nearest ancestor.
func addWatchedNames(names map[string]map[string]bool, path string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		names[realPath(path)] = map[string]bool{anyName: true}
	}
	name := filepath.Base(path)
	dir := filepath.Dir(path)
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
		name, dir = filepath.Base(dir), filepath.Dir(dir)
	}
	dir = realPath(dir)
	if names[dir] == nil {
		names[dir] = make(map[string]bool)
	}
	names[dir][name] = true
}

// realPath is the one name by which a directory is watched: the kernel knows a
// directory by one watch, and whoever gave up one of two names for it would give up
// both.
func realPath(dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target
	}
	return dir
}

// maxLinks is as many as the kernel follows (path_resolution(7)).
const maxLinks = 40

// pathAndLinks are the path itself and every link on the way to what it leads to: another
// file stands there when one of them is made anew.
func pathAndLinks(path string) []string {
	found := []string{path}
	for at := 0; at < len(found) && len(found) <= maxLinks; at++ {
		for part := found[at]; part != filepath.Dir(part); part = filepath.Dir(part) {
			target, err := os.Readlink(part)
			if err != nil {
				continue // no link, or nothing yet
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(realPath(filepath.Dir(part)), target)
			}
			rest, err := filepath.Rel(part, found[at])
			if err != nil {
				continue
			}
			for _, next := range []string{part, filepath.Join(target, rest)} {
				if !slices.Contains(found, next) {
					found = append(found, next)
				}
			}
		}
	}
	return found
}

// Run turns the kernel's events into hints until ctx ends, and then releases
// the watches.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.notify.Close()
	var (
		timer *time.Timer
		fire  <-chan time.Time
		first time.Time
	)
	hold := func() {
		now := time.Now()
		switch {
		case fire == nil:
			first = now
			timer = time.NewTimer(debounce)
			fire = timer.C
		case now.Sub(first) < w.maxDelay:
			timer.Reset(min(debounce, w.maxDelay-now.Sub(first)))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.notify.Events:
			if !open {
				return errors.New("watch files: the event queue was closed")
			}
			if w.isRelevant(event) {
				hold()
			}
		case err, open := <-w.notify.Errors:
			if !open {
				return errors.New("watch files: the event queue was closed")
			}
			// An overflow loses events: everything may have changed.
			w.log.Warn("file events were lost; reading everything again",
				slog.String("event", "file-watch"), slog.Any("error", err))
			hold()
		case <-fire:
			fire = nil
			w.mu.Lock()
			w.updateWatches() // directories may have come or gone, links may lead elsewhere
			w.mu.Unlock()
			w.signal()
		}
	}
}

// isRelevant reports whether an event is about a watched name, about a link that
// ConfigMap-style mounts flip, or about a watched directory itself.
func (w *Watcher) isRelevant(event fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[event.Name] != nil {
		return true
	}
	names := w.names[filepath.Dir(event.Name)]
	base := filepath.Base(event.Name)
	return names[base] || names[anyName] || (base == "..data" && names != nil)
}

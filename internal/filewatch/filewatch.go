// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// delay is the time between the first event of a file and the signal: an editor or a template
// renderer causes several in a row.
const delay = 50 * time.Millisecond

// pollInterval is the interval of the signals without an inotify instance.
const pollInterval = 30 * time.Second

// Watcher signals that a watched file may have changed.
type Watcher struct {
	log     *slog.Logger
	notify  *fsnotify.Watcher // nil if the kernel permits none
	changed chan struct{}

	mu    sync.Mutex
	paths []string
	names map[string]map[string]bool // watched names by directory
}

// New returns a watcher that watches no files yet. The caller must call Run. Other processes
// with the same user ID can use up all instances that the kernel allows this ID. Then the
// watcher signals new paths, and every pollInterval.
func New(log *slog.Logger) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if errors.Is(err, unix.EMFILE) {
		log.Warn("cannot watch files; they are read every 30 s instead: increase fs.inotify.max_user_instances",
			slog.String("event", "file-watch"), slog.Any("error", err))
		return &Watcher{log: log, changed: make(chan struct{}, 1)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", err)
	}
	return &Watcher{log: log, notify: notify, changed: make(chan struct{}, 1)}, nil
}

// Changed receives a value after a watched file may have changed. Values that were not
// received are merged into one.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Watch replaces the set of watched absolute paths. A path and its directories need not
// exist. For a directory, every entry is watched. A new path causes a signal
// immediately, because it may have changed since the caller read it.
func (w *Watcher) Watch(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := slices.ContainsFunc(paths, func(p string) bool { return !slices.Contains(w.paths, p) })
	w.paths = slices.Clone(paths)
	w.updateWatches()
	if added {
		w.signal()
	}
}

func (w *Watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// updateWatches derives the directories from the current paths and updates the kernel's
// watches.
func (w *Watcher) updateWatches() {
	if w.notify == nil {
		return
	}
	names := make(map[string]map[string]bool)
	for _, path := range w.paths {
		// Without the watch of a path that hangs, its file is read regularly nevertheless.
		found, _ := textfile.Within(path, func() (map[string]map[string]bool, error) { return watchedNames(path), nil })
		for dir, of := range found {
			if names[dir] == nil {
				names[dir] = make(map[string]bool)
			}
			maps.Copy(names[dir], of)
		}
	}
	for dir := range w.names {
		if names[dir] == nil {
			_ = w.notify.Remove(dir) // the directory, and with it the watch, may not exist any more
		}
	}
	for dir := range names {
		// Adding a watch twice is harmless. It restores the watch of a directory that was
		// removed and created again.
		if err := w.notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && w.names[dir] == nil {
			w.log.Warn(fmt.Sprintf("cannot watch %s; changes of its files take effect within 2 minutes", dir),
				slog.String("event", "file-watch"), slog.String("path", dir), slog.Any("error", err))
		}
	}
	w.names = names
}

// anyName stands for all entries of a directory. No file can be named like this.
const anyName = "/"

// watchedNames returns the names to watch for a path and the links in it, by directory.
func watchedNames(path string) map[string]map[string]bool {
	names := make(map[string]map[string]bool)
	for _, step := range pathAndLinks(path) {
		addWatchedNames(names, step)
	}
	return names
}

// addWatchedNames adds the name to watch for path: its name in its directory or, if
// that does not exist, the first missing name in the nearest existing ancestor.
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

// realPath returns the name under which a directory is watched. The kernel keeps one watch for
// each directory, so removing one of two names would remove both.
func realPath(dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target
	}
	return dir
}

// maxLinks is the kernel's limit (path_resolution(7)).
const maxLinks = 40

// pathAndLinks returns the path and every symbolic link in its resolution. Replacing one
// of them changes the file that the path refers to.
func pathAndLinks(path string) []string {
	found := []string{path}
	for at := 0; at < len(found) && len(found) <= maxLinks; at++ {
		for part := found[at]; part != filepath.Dir(part); part = filepath.Dir(part) {
			target, err := os.Readlink(part)
			if err != nil {
				continue // not a link, or it does not exist
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

// Run signals Changed for the kernel's events until ctx ends, and then removes the
// watches.
func (w *Watcher) Run(ctx context.Context) error {
	if w.notify == nil {
		w.poll(ctx)
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }() // a file system that hangs blocks it
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (w *Watcher) poll(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.signal()
		}
	}
}

func (w *Watcher) run(ctx context.Context) error {
	defer w.notify.Close()
	var fire <-chan time.Time
	schedule := func() {
		if fire == nil {
			fire = time.After(delay)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.notify.Events:
			if !open {
				return errors.New("cannot watch files: the event queue was closed")
			}
			if w.isRelevant(event) {
				schedule()
			}
		case err, open := <-w.notify.Errors:
			if !open {
				return errors.New("cannot watch files: the event queue was closed")
			}
			// An overflow loses events, so any file may have changed.
			w.log.Warn("file events lost; reading all files again",
				slog.String("event", "file-watch"), slog.Any("error", err))
			schedule()
		case <-fire:
			fire = nil
			w.mu.Lock()
			w.updateWatches() // directories and links may have changed
			w.mu.Unlock()
			w.signal()
		}
	}
}

// isRelevant reports whether an event is about a watched name or about a watched directory itself.
func (w *Watcher) isRelevant(event fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[event.Name] != nil {
		return true
	}
	names := w.names[filepath.Dir(event.Name)]
	return names[filepath.Base(event.Name)] || names[anyName]
}

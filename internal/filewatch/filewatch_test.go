// SPDX-License-Identifier: Apache-2.0

package filewatch_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
)

// startWatcher runs a watcher over paths and receives the signal for new paths.
func startWatcher(t *testing.T, paths ...string) *filewatch.Watcher {
	t.Helper()
	w, err := filewatch.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	w.Watch(paths...)
	expectSignal(t, w, "fresh paths")
	return w
}

func expectSignal(t *testing.T, w *filewatch.Watcher, what string) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(20 * time.Second):
		t.Fatalf("no signal: %s", what)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	w := startWatcher(t, path)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"created", func() { write(t, path, "a") }},
		{"written in place", func() { write(t, path, "b") }},
		{"replaced by rename", func() {
			write(t, path+".new", "c")
			must(t, os.Rename(path+".new", path))
		}},
		{"written after the rename", func() { write(t, path, "d") }},
		{"removed", func() { must(t, os.Remove(path)) }},
		{"created again", func() { write(t, path, "e") }},
	} {
		step.do()
		expectSignal(t, w, step.name)
	}
}

func TestConfigMapStyleMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"..v1", "..v2"} {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		write(t, filepath.Join(dir, version, "c.yaml"), version)
	}
	must(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/c.yaml", filepath.Join(dir, "c.yaml")))
	w := startWatcher(t, filepath.Join(dir, "c.yaml"))
	must(t, os.Symlink("..v2", filepath.Join(dir, "..tmp")))
	must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	expectSignal(t, w, "flip of ..data")
	write(t, filepath.Join(dir, "..v2", "c.yaml"), "in place behind the link")
	expectSignal(t, w, "write behind the link")
}

func TestDirectoriesCreatedLater(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	path := filepath.Join(base, "etc", "http01-proxyd", "c.yaml")
	w := startWatcher(t, path)
	must(t, os.Mkdir(filepath.Join(base, "etc"), 0o755))
	expectSignal(t, w, "first directory")
	must(t, os.Mkdir(filepath.Dir(path), 0o755))
	expectSignal(t, w, "second directory")
	write(t, path, "a")
	expectSignal(t, w, "file")
	must(t, os.RemoveAll(filepath.Join(base, "etc")))
	expectSignal(t, w, "all gone")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expectSignal(t, w, "all back")
	// The directories are created together. The last one may be watched only after the
	// signal, and a file that is written before must cause a signal, too.
	write(t, path, "b")
	expectSignal(t, w, "file is back")
}

func TestDirectoryEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := startWatcher(t, dir)
	write(t, filepath.Join(dir, "any.conf"), "a")
	expectSignal(t, w, "new entry")
}

func TestOtherFilesIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "other")
	w, clock := startWatcher(t, path), startWatcher(t, other)
	// The second watcher's signal is as late as the first one's would be.
	for range 2 {
		write(t, other, "a")
		expectSignal(t, clock, "the other file")
	}
	select {
	case <-w.Changed():
		t.Error("a signal for a file that is not watched")
	default:
	}
	write(t, path, "a")
	expectSignal(t, w, "the watched file")
}

// TestSymlinksAlongPath: a replaced directory link, and links to links.
func TestSymlinksAlongPath(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		must(t, os.MkdirAll(filepath.Join(base, "store", version), 0o755))
		write(t, filepath.Join(base, "store", version, "c.crt"), version)
	}
	flip := func(target, link string) {
		t.Helper()
		must(t, os.Symlink(target, link+".new"))
		must(t, os.Rename(link+".new", link))
	}
	must(t, os.MkdirAll(filepath.Join(base, "etc"), 0o755))
	link := filepath.Join(base, "etc", "trust")
	current := filepath.Join(base, "store", "current")
	flip("v1", current)
	flip("../store/current", link)
	w := startWatcher(t, filepath.Join(link, "c.crt"))
	for range 3 {
		for _, version := range []string{"v2", "v1"} {
			flip(version, current)
			expectSignal(t, w, "flip of the link that the link leads to, to "+version)
			write(t, filepath.Join(base, "store", version, "c.crt"), "in place")
			expectSignal(t, w, "write behind both links, in "+version)
			flip("../store/"+version, link)
			expectSignal(t, w, "flip of the directory link")
			write(t, filepath.Join(base, "store", version, "c.crt"), "in place again")
			expectSignal(t, w, "write behind the directory link")
			flip("../store/current", link)
			expectSignal(t, w, "flip back")
		}
	}
	must(t, os.Remove(link))
	expectSignal(t, w, "no link")
	flip("nowhere", link)
	expectSignal(t, w, "a link that leads nowhere")
	flip(link, link)
	expectSignal(t, w, "a link that leads to itself")
	flip("../store/v2", link)
	expectSignal(t, w, "a link again")
	write(t, filepath.Join(base, "store", "v2", "c.crt"), "again")
	expectSignal(t, w, "write behind it")
}

// TestEventStreamDoesNotDelaySignal: signals arrive during a stream of events.
func TestEventStreamDoesNotDelaySignal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.crt")
	w, err := filewatch.New(slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.Watch(path)
	expectSignal(t, w, "fresh paths")
	stream := time.NewTicker(5 * time.Millisecond)
	defer stream.Stop()
	enough := time.After(20 * time.Second)
	for signals := 0; signals < 3; {
		select {
		case <-stream.C:
			write(t, path, "the same")
		case <-w.Changed():
			signals++
		case <-enough:
			t.Fatalf("%d signals during a stream of events", signals)
		}
	}
	cancel()
	must(t, <-ended)
}

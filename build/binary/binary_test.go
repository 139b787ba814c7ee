// SPDX-License-Identifier: Apache-2.0

package binary_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
)

// module is a Go module in a git repository of its own.
type module struct {
	dir string
}

func newModule(t *testing.T) module {
	t.Helper()
	m := module{t.TempDir()}
	m.write(t, "go.mod", "module example.com/x/tool\n\ngo 1.26\n")
	m.write(t, "main.go", "package main\n\nfunc main() {}\n")
	m.run(t, "git", "init", "--quiet")
	return m
}

func (m module) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m module) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2026-03-04T05:06:07Z", "GIT_COMMITTER_DATE=2026-03-04T05:06:07Z",
		"GOFLAGS=-buildvcs=auto -gcflags=all=-dwarf=false", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits everything and returns the hash.
func (m module) commit(t *testing.T, message string) string {
	t.Helper()
	m.run(t, "git", "add", ".")
	m.run(t, "git", "commit", "--quiet", "--no-gpg-sign", "--message", message)
	return m.run(t, "git", "rev-parse", "HEAD")
}

// build builds to a file in dir and returns its path.
func (m module) build(t *testing.T, dir, name string, flags ...string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", file}, flags...)
	m.run(t, "go", args...)
	return file
}

func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// TestReadCommit follows a module from its tag to changes beside it, and
// to a place without git.
func TestReadCommit(t *testing.T) {
	t.Parallel()
	m, out := newModule(t), t.TempDir()
	revision := m.commit(t, "first")
	m.run(t, "git", "tag", "v1.2.3")
	tagged := m.build(t, out, "tagged")
	m.write(t, "main.go", "package main\n\nfunc main() { println() }\n")
	dirty := m.build(t, out, "dirty")
	unknown := m.build(t, out, "unknown", "-buildvcs=false")
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for file, want := range map[string]binary.Commit{
		tagged:  {Version: "v1.2.3", Revision: revision, Time: at},
		dirty:   {Version: "v1.2.3+dirty", Revision: revision + "-dirty", Time: at},
		unknown: {Version: "(devel)"},
	} {
		b, err := binary.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.Commit); diff != "" {
			t.Errorf("%s, -want +got:\n%s", filepath.Base(file), diff)
		}
		if b.Commit.Dirty() != (file != tagged) {
			t.Errorf("%s: dirty is %t", filepath.Base(file), b.Commit.Dirty())
		}
		if b.Program != "tool" || b.OS != runtime.GOOS || b.Arch != runtime.GOARCH || b.Name() != "tool-"+platform() {
			t.Errorf("%s is %s for %s/%s, to be called %s", file, b.Program, b.OS, b.Arch, b.Name())
		}
	}
}

func TestReadAllRequiresOneCommit(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	revision := m.commit(t, "first")
	good, name := t.TempDir(), "tool-"+platform()
	m.build(t, good, name)

	misnamed := t.TempDir()
	m.build(t, misnamed, "tool-linux-vax")

	// A second program, of the next commit, beside the first of the one before.
	mixed := t.TempDir()
	m.build(t, mixed, name)
	if err := os.Mkdir(filepath.Join(m.dir, "uther"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(t, "uther/main.go", "package main\n\nfunc main() {}\n")
	next := m.commit(t, "second")
	m.build(t, mixed, "uther-"+platform(), "./uther")

	notGo := t.TempDir()
	if err := os.WriteFile(filepath.Join(notGo, name), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		dir   string
		names []string
		errs  []string
	}{
		"one":       {good, []string{name}, nil},
		"none":      {t.TempDir(), nil, nil},
		"misnamed":  {misnamed, nil, []string{"tool-linux-vax has the contents of " + name, "make binaries"}},
		"mixed":     {mixed, nil, []string{"uther-" + platform() + " was built from", revision, next, "make binaries"}},
		"no Go one": {notGo, nil, []string{"read what " + filepath.Join(notGo, name) + " was built from"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := binary.ReadAll(tt.dir, "tool-*-*", "uther-*-*")
			var names []string
			for _, b := range all {
				names = append(names, filepath.Base(b.File))
			}
			if diff := cmp.Diff(tt.names, names); diff != "" {
				t.Errorf("binaries, -want +got:\n%s", diff)
			}
			if (err != nil) != (tt.errs != nil) {
				t.Errorf("got %v, want %q", err, tt.errs)
			}
			for _, want := range tt.errs {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

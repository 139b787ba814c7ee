// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// makeTimeout bounds one make: four architectures, from an empty cache, on a
// machine that has other things to do.
const makeTimeout = 20 * time.Minute

// run runs a command in dir and returns its output, both streams together, and
// its error. An env entry goes before what this process has.
func run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	var both strings.Builder
	err := runInto(t, &both, &both, dir, env, name, args...)
	return both.String(), err
}

// runInto runs a command with separate output streams.
func runInto(t *testing.T, stdout, stderr io.Writer, dir string, env []string, name string, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), makeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	cmd.WaitDelay = time.Minute
	// The variables of a make that runs this test, and the developer's settings of git,
	// must not reach the make in this test.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	cmd.Env = append(cmd.Env,
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-03-04T05:06:07Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-03-04T05:06:07Z")
	cmd.Env = append(cmd.Env, env...)
	return cmd.Run()
}

// succeed runs a command that has to succeed, and returns its output.
func succeed(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, nil, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// snapshot makes a git repository of one commit out of the tree as it is now,
// committed or not.
func snapshot(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	files := succeed(t, "..", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for _, name := range strings.Split(strings.TrimSuffix(files, "\x00"), "\x00") {
		copyFile(t, filepath.Join("..", name), filepath.Join(dir, name))
	}
	succeed(t, dir, "git", "init", "--quiet")
	succeed(t, dir, "git", "add", ".")
	succeed(t, dir, "git", "commit", "--quiet", "--no-gpg-sign", "--message", "all")
	return dir
}

// copyFile copies a regular file with its mode. A tracked file that is deleted here is
// left out.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return
	}
	must(t, err)
	info := must1(os.Lstat(from))(t)
	if !info.Mode().IsRegular() {
		t.Fatalf("%s is %s: only regular files are copied", from, info.Mode())
	}
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, data, info.Mode().Perm()))
}

// clone clones a repository to a new place.
func clone(t *testing.T, repository, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	succeed(t, ".", "git", "clone", "--quiet", repository, dir)
	return dir
}

// files reads all regular files below dir, by their path in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all[name] = string(data)
		return err
	})
	must(t, err)
	return all
}

// commitTime is the time of the commits that run makes.
func commitTime() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 gives what a call returned, unless that was an error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

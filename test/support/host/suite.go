// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// test/cmd/suites sets these when it runs a package's tests in several processes: a shared
// directory, and the number of processes.
const (
	GroupVariable     = "HTTP01_TEST_GROUP"
	groupSizeVariable = "HTTP01_TEST_GROUP_SIZE"
)

// Suite holds the shared setup of a package's tests in one cell. The tests share it because
// hosts take seconds to boot.
type Suite struct {
	// Prepare is the prepare of Enclose.
	Prepare func(ctx context.Context) ([]string, error)
	// Up runs the setup in the cell. Unlike the tests' own contexts, its context does not
	// end with a test.
	Up func(ctx context.Context, c *Cell) (down func(context.Context) error, err error)
}

// Run is for TestMain. It runs the tests (testing.M.Run) between Up and the function that
// Up returns, in a cell, and returns the exit code. Without root it runs the tests
// directly, which skip themselves.
func (s Suite) Run(tests func() int) int {
	if os.Geteuid() != 0 {
		return tests()
	}
	return Enclose(s.Prepare, func(c *Cell) int { return s.runInCell(c, tests) })
}

func (s Suite) runInCell(c *Cell, tests func() int) int {
	ctx := context.Background()
	down, err := s.Up(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the tests:", err)
		return 1
	}
	code := tests()
	if err := down(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
		return max(code, 1)
	}
	return code
}

// Repository returns the root of the repository for a test in this module. go test runs it
// in the package's folder.
func Repository() string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return dir
}

// GroupDirectory returns a directory that the processes of one suite share. The first process
// calls fill for it. A single process uses its own directory. LeaveGroup removes it.
func GroupDirectory(ctx context.Context, name string, fill func(dir string) error) (string, error) {
	group := os.Getenv(GroupVariable)
	if group == "" {
		dir, err := os.MkdirTemp("", "http01-"+name+"-")
		if err == nil {
			err = fill(dir)
		}
		return dir, err
	}
	lock, err := lockFile(ctx, filepath.Join(group, name+".lock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	dir := filepath.Join(group, name)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	aside := dir + ".new"
	if err := os.Mkdir(aside, 0o750); err != nil {
		return "", fmt.Errorf("make the directory of the suite: %w", err)
	}
	if err := fill(aside); err != nil {
		return "", errors.Join(err, os.RemoveAll(aside))
	}
	return dir, os.Rename(aside, dir)
}

// LeaveGroup removes the directory of GroupDirectory for a single process. test/cmd/suites
// removes shared directories.
func LeaveGroup(dir string) error {
	if os.Getenv(GroupVariable) != "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// Gather adds lines to those that the processes of one suite collect under a name. The last
// process gets all of them with last true. A single process is the last.
func Gather(ctx context.Context, name string, lines []string) (all []string, last bool, err error) {
	group := os.Getenv(GroupVariable)
	if group == "" {
		return lines, true, nil
	}
	size, err := strconv.Atoi(os.Getenv(groupSizeVariable))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", groupSizeVariable, err)
	}
	lock, err := lockFile(ctx, filepath.Join(group, name+".lock"))
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = lock.Close() }()
	parts := filepath.Join(group, name)
	if err := os.MkdirAll(parts, 0o750); err != nil {
		return nil, false, fmt.Errorf("collect the lines of the suite: %w", err)
	}
	// The IDs of processes in different PID namespaces can be equal.
	f, err := os.CreateTemp(parts, "")
	if err != nil {
		return nil, false, fmt.Errorf("collect the lines of the suite: %w", err)
	}
	_, err = f.WriteString(strings.Join(lines, "\n"))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, false, fmt.Errorf("collect the lines of the suite: %w", err)
	}
	entries, err := os.ReadDir(parts)
	if err != nil || len(entries) < size {
		return nil, false, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(parts, e.Name()))
		if err != nil {
			return nil, false, fmt.Errorf("collect the lines of the suite: %w", err)
		}
		all = append(all, strings.Split(string(text), "\n")...)
	}
	return all, true, nil
}

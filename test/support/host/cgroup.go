// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// cgroupPrefix begins the names of our cgroups; the process ID outside the cell follows. The
// kernel does not remove a cgroup with its last process, so that process does. The next cell
// removes the cgroups of killed cells.
const cgroupPrefix = "http01-host-"

// claimCgroups creates a cgroup in every hierarchy under a unique name and locks it. The
// kernel releases the lock with this process, which shows other processes that the cell
// ended. Process IDs cannot show it, because cells can be nested.
func claimCgroups() (name string, lock *os.File, err error) {
	h, err := findHierarchies()
	if err != nil {
		return "", nil, err
	}
	name = cgroupPrefix + strconv.Itoa(os.Getpid())
	for n := 1; ; n++ {
		lock, err := claimCgroup(filepath.Join(h.unified, name))
		if errors.Is(err, errTaken) {
			name = fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), n)
			continue
		}
		if err == nil {
			err = makeCgroups(name)
		}
		return name, lock, err
	}
}

// errTaken means that the name is in use, or was a moment ago.
var errTaken = errors.New("the cgroup belongs to another cell")

func claimCgroup(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o755); errors.Is(err, fs.ErrExist) { //nolint:gosec // as systemd makes them
		return nil, errTaken
	} else if err != nil {
		return nil, fmt.Errorf("create cgroup: %w", err)
	}
	lock, err := lockCgroup(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errTaken // removed before it was locked
	}
	return lock, err
}

// lockCgroup locks a cgroup that is not locked. Closing the file releases the lock.
func lockCgroup(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errTaken
	}
	if err == nil {
		err = stillAt(path, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock cgroup %s: %w", path, err), f.Close())
	}
	return f, nil
}

// hierarchies lists the cgroup trees that systemd uses: cgroup2, and with version 1 also the
// tree named "systemd" (cgroups(7)).
type hierarchies struct {
	unified string
	named   string // empty if the hierarchy does not exist
}

func (h hierarchies) all() []string {
	if h.named == "" {
		return []string{h.unified}
	}
	return []string{h.unified, h.named}
}

func findHierarchies() (hierarchies, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchies{}, fmt.Errorf("list the mounts: %w", err)
	}
	h := parseMountinfo(string(text))
	if h.unified == "" {
		return h, errors.New(
			"no cgroup2 is mounted here: systemd-nspawn needs it (mount -t cgroup2 none /sys/fs/cgroup/unified)")
	}
	return h, nil
}

// parseMountinfo parses proc_pid_mountinfo(5). The mount point is the fifth field; type,
// source and options of the file system follow a single hyphen.
func parseMountinfo(text string) hierarchies {
	var h hierarchies
	for line := range strings.Lines(text) {
		mount, filesystem, found := strings.Cut(strings.TrimSpace(line), " - ")
		before, after := strings.Fields(mount), strings.Fields(filesystem)
		if !found || len(before) < 5 || len(after) < 3 {
			continue
		}
		switch {
		case after[0] == "cgroup2":
			h.unified = before[4]
		case after[0] == "cgroup" && slices.Contains(strings.Split(after[2], ","), "name=systemd"):
			h.named = before[4]
		}
	}
	return h
}

// stillAt returns an error when the opened cgroup was removed by the previous owner of its
// lock. Another one may exist under the name.
func stillAt(path string, f *os.File) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	if err == nil && !os.SameFile(opened, there) {
		err = errTaken
	}
	return err
}

// makeCgroups creates a cgroup in every hierarchy.
func makeCgroups(name string) error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, root := range h.all() {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil { //nolint:gosec // as systemd makes them
			return fmt.Errorf("create cgroup %s: %w", name, err)
		}
	}
	return nil
}

// removeCgroups removes the cgroups of a name with all below them. Their last processes may
// still be exiting.
func removeCgroups(ctx context.Context, name string) error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	return lab.Eventually(ctx, "no cgroup "+name+" left", func(context.Context) error {
		var all error
		for _, root := range h.all() {
			all = errors.Join(all, removeCgroup(filepath.Join(root, name)))
		}
		return all
	})
}

func removeCgroup(path string) error {
	var dirs []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list cgroup %s: %w", path, err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// sweepCgroups removes the cgroups of cells whose outer process was killed. It skips
// running cells.
func sweepCgroups() error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, root := range h.all() {
		left, err := filepath.Glob(filepath.Join(root, cgroupPrefix+"*"))
		if err != nil {
			return fmt.Errorf("list cgroups: %w", err)
		}
		for _, path := range left {
			// This one is created and locked before the others of its name.
			lock, err := lockCgroup(filepath.Join(h.unified, filepath.Base(path)))
			if errors.Is(err, errTaken) {
				continue
			}
			// Best effort: a process in it belongs to another program.
			_ = removeCgroup(path)
			if err == nil {
				_ = lock.Close()
			}
		}
	}
	return nil
}

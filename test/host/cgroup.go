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

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// cgroupPrefix makes our cgroups recognisable; the id of the process outside
// the cell follows. The kernel does not remove them with their last process,
// so that process does, and the next cell for one that could not.
const cgroupPrefix = "http01-host-"

func cgroupName(pid int) string { return cgroupPrefix + strconv.Itoa(pid) }

// hierarchies are the cgroup trees that systemd uses: cgroup2, and beside it,
// where version 1 is in use too, the tree named "systemd" (cgroups(7)).
type hierarchies struct {
	unified string
	named   string // empty where there is none
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
		return h, errors.New("no cgroup2 is mounted here: systemd-nspawn needs it (mount -t cgroup2 none /sys/fs/cgroup/unified)")
	}
	return h, nil
}

// parseMountinfo reads proc_pid_mountinfo(5): the mount point is the fifth
// field; type, source and options of the file system follow a lone hyphen.
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

// makeCgroups makes a cgroup of that name in every hierarchy.
func makeCgroups(name string) error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, root := range h.all() {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil { //nolint:gosec // as systemd makes them
			return fmt.Errorf("make cgroup %s: %w", name, err)
		}
	}
	return nil
}

// removeCgroups removes the cgroups of that name with all below them. Their
// last processes may still be on their way out.
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
				return nil // went meanwhile
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

// sweepCgroups removes what cells have left whose outer process was killed.
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
			pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), cgroupPrefix))
			if err != nil || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				// Best effort: whatever still runs in it is not ours to end.
				_ = removeCgroup(path)
			}
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settleTimeout is how long the kernel gets to remove what has ended.
const settleTimeout = 10 * time.Second

// watched are the directories outside the checkout in which the programs of the
// tests could leave something.
func watched() []string {
	dirs := []string{"/dev/shm", "/etc", "/run", "/run/netns", "/run/http01-lab", "/tmp", "/var/lib", "/var/tmp"}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, cache)
	}
	return dirs
}

// snapshot lists everything on the machine that tests could leave. Snapshots are compared;
// nothing is removed.
type snapshot map[string]bool

// takeSnapshot lists the entries of the watched directories, mounts, control groups and new
// files of the checkout. It omits labs and cells of running processes, which belong to
// another run, and names in /tmp without http01.
func takeSnapshot(root string) (snapshot, error) {
	found := snapshot{}
	living := liveLabs()
	for _, dir := range watched() {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list what tests could leave: %w", err)
		}
		for _, e := range entries {
			if (dir != "/tmp" || strings.Contains(e.Name(), "http01")) && !living.owns(e.Name()) {
				found["file "+filepath.Join(dir, e.Name())] = true
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list what tests could leave: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && !living.owns(filepath.Base(fields[4])) {
			found["mount "+fields[4]] = true
		}
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/http01-*")
	if err != nil {
		return nil, fmt.Errorf("list what tests could leave: %w", err)
	}
	direct, err := filepath.Glob("/sys/fs/cgroup/http01-*")
	if err != nil {
		return nil, fmt.Errorf("list what tests could leave: %w", err)
	}
	for _, group := range slices.Concat(groups, direct) {
		if !locked(filepath.Join(filepath.Dir(group), "..", "unified", filepath.Base(group))) && !locked(group) {
			found["control group "+group] = true
		}
	}
	return found, untracked(root, found)
}

// labs has the names of labs without their hyphens.
type labs []string

// liveLabs returns the labs whose process holds the lock file. The processes of this run
// have ended before the last snapshot.
func liveLabs() labs {
	var all labs
	locks, _ := filepath.Glob("/run/http01-lab/*/lock")
	for _, path := range locks {
		if locked(path) {
			all = append(all, strings.ReplaceAll(filepath.Base(filepath.Dir(path)), "-", ""))
		}
	}
	return all
}

// locked reports whether a process holds a lock on a file or directory. Labs lock a file,
// and cells lock their control group.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // it does not exist
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// owns reports whether a file name belongs to one of the labs.
func (l labs) owns(name string) bool {
	name = strings.ReplaceAll(name, "-", "")
	return slices.ContainsFunc(l, func(id string) bool { return strings.HasPrefix(name, id) })
}

// untracked adds files of the checkout that git does not track. Tracked files can be edited
// during a run.
func untracked(root string, found snapshot) error {
	cmd := exec.Command("git", "ls-files", "--others", "--exclude-standard") //nolint:noctx // takes a moment
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the new files of the checkout: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	for line := range strings.Lines(string(out)) {
		found["new file of the checkout "+strings.TrimSpace(line)] = true
	}
	return nil
}

// processes lists the processes of a run. The kernel shows the environment with which
// each was started.
func processes(id string) []string {
	var all []string
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !slices.ContainsFunc(bytes.Split(text, []byte{0}),
			func(v []byte) bool { return string(v) == runVariable+"="+id }) {
			continue // has exited, or belongs to another run
		}
		pid := filepath.Base(filepath.Dir(path))
		command, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if number, err := strconv.Atoi(pid); err == nil && number != os.Getpid() && len(command) > 0 {
			all = append(all, fmt.Sprintf("process %s %s", pid, strings.ReplaceAll(strings.TrimRight(string(command), "\x00"),
				"\x00", " ")))
		}
	}
	return all
}

// runtimeDirs are created by programs at their first start after a boot: by ip (a
// mount too), mount, firewalld and the labs.
func runtimeDirs() []string {
	return []string{"/run/firewalld", "/run/http01-lab", "/run/mount", "/run/netns"}
}

// removeRuntimeDirs removes the directories of runtimeDirs that are new and empty. One
// that another run uses is not empty, and stays.
func removeRuntimeDirs(before snapshot) {
	for _, dir := range runtimeDirs() {
		if before["file "+dir] {
			continue
		}
		_ = unix.Unmount(dir, 0) // EINVAL where it is not a mount, EBUSY where it is in use
		_ = os.Remove(dir)
	}
}

// leftovers returns everything that was not there before. It repeats this for a limited
// time, because the kernel removes ended processes with a delay.
func leftovers(before snapshot, root, id, tmp string) ([]string, error) {
	for deadline := time.Now().Add(settleTimeout); ; {
		removeRuntimeDirs(before)
		after, err := takeSnapshot(root)
		if err != nil {
			return nil, err
		}
		all := processes(id)
		for what := range after {
			if !before[what] {
				all = append(all, what)
			}
		}
		files, err := filesIn(tmp)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
		if len(all) == 0 || time.Now().After(deadline) {
			slices.Sort(all)
			return all, nil
		}
		<-time.After(100 * time.Millisecond)
	}
}

// filesIn lists what processes have left in their temporary directories below tmp;
// nothing when tmp is empty.
func filesIn(tmp string) ([]string, error) {
	var all []string
	if tmp == "" {
		return nil, nil
	}
	entries, err := filepath.Glob(filepath.Join(tmp, "*", "t", "*"))
	if err != nil {
		return nil, fmt.Errorf("list temporary files: %w", err)
	}
	for _, path := range entries {
		all = append(all, "temporary file "+path)
	}
	return all, nil
}

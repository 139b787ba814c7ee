// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxCgroups bounds the search for a cgroup. A node with 500 pods has some
	// 3000.
	maxCgroups = 1 << 14
	// maxCgroupProcesses bounds how many processes of a cgroup are looked at.
	maxCgroupProcesses = 1 << 10
)

// findCgroup finds the cgroup with an id: its directory, and its path below the
// mount. The root is not found, since it tells nothing of who is in it: where
// cgroup version 1 rules, everybody is.
func findCgroup(id uint64) (dir, path string, found bool) {
	root := cgroupMount()
	info, err := os.Lstat(root)
	if err != nil || id == 0 {
		return "", "", false
	}
	if inode, _ := inodeOf(info); inode == id {
		return "", "", false
	}
	dir, found = searchCgroup(root, id)
	return dir, strings.TrimPrefix(dir, root), found
}

// cgroupMount is where the hierarchy of version 2 is mounted: /sys/fs/cgroup,
// or /sys/fs/cgroup/unified beside version 1. It is empty where it is not.
func cgroupMount() string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	return findMount(f)
}

// findMount reads proc_pid_mountinfo(5): the fourth field is what of the file
// system is mounted, the fifth where; its type follows a lone hyphen. A mount
// that shows a part only counts if there is no other.
func findMount(mountinfo io.Reader) string {
	part := ""
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		mount, filesystem, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(filesystem, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		root, point := fields[3], fields[4]
		if root == "/" {
			return point
		}
		part = point
	}
	return part
}

// searchCgroup looks for the directory whose inode number is the cgroup's id, level
// by level; on 64-bit machines the two are one number (include/linux/kernfs.h,
// kernfs_ino).
func searchCgroup(root string, id uint64) (dir string, found bool) {
	seen := 0
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		// What is removed meanwhile is nobody's any more.
		entries, _ := os.ReadDir(queue[0])
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if seen++; seen > maxCgroups {
				return "", false
			}
			info, err := e.Info()
			if err != nil {
				continue
			}
			path := filepath.Join(queue[0], e.Name())
			inode, links := inodeOf(info)
			if inode == id {
				return path, true
			}
			// Each cgroup below adds a link to the two that a directory has
			// (fs/kernfs/inode.c, kernfs_refresh_inode): most are spared a read.
			if links > 2 {
				queue = append(queue, path)
			}
		}
	}
	return "", false
}

func inodeOf(info fs.FileInfo) (inode, links uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, uint64(stat.Nlink) //nolint:unconvert // 32 bits on some machines
	}
	return 0, 0
}

// cgroupProcesses lists the processes in a cgroup, which everybody may read. It
// lists none when there are more than maxCgroupProcesses or one of them is out of
// sight, in another PID namespace (id 0).
func cgroupProcesses(dir string) []int {
	f, err := os.Open(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var pids []int
	for lines := bufio.NewScanner(io.LimitReader(f, maxCgroupProcesses*8)); lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil || pid == 0 || len(pids) == maxCgroupProcesses {
			return nil
		}
		pids = append(pids, pid)
	}
	return pids
}

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
	// maxCgroups limits the search for a cgroup. A node with 500 pods has about 3000.
	maxCgroups = 1 << 14
	// maxCgroupProcesses limits how many processes of a cgroup are examined.
	maxCgroupProcesses = 1 << 10
)

// findCgroup returns the directory of the cgroup with an ID and its path below the mount
// point. It does not return the root cgroup: on hosts with cgroup version 1 all processes are
// in it.
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

// cgroupMount returns the mount point of the cgroup version 2 hierarchy: /sys/fs/cgroup, or
// /sys/fs/cgroup/unified beside version 1. It returns "" if the hierarchy is not mounted.
func cgroupMount() string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	return findMount(f)
}

// findMount parses proc_pid_mountinfo(5). The fourth field is the mounted root within the
// file system, the fifth is the mount point, and the file system type follows a single
// hyphen. A mount of a subdirectory is used only if there is no other.
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

// searchCgroup searches breadth-first for the directory whose inode number is the cgroup's
// ID. On 64-bit machines the two numbers are equal (include/linux/kernfs.h, kernfs_ino).
func searchCgroup(root string, id uint64) (dir string, found bool) {
	seen := 0
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		// A directory that was removed meanwhile has no processes.
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
			// A directory has two links and one more per child cgroup (fs/kernfs/inode.c,
			// kernfs_refresh_inode). Most directories need not be read.
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

// cgroupProcesses lists the processes in a cgroup, which every user may read. It returns nil
// if there are more than maxCgroupProcesses or if one of them is in another PID namespace (ID
// 0).
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

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxCgroups limits the search for a cgroup. With 500 pods there are about 3000 on a node.
const maxCgroups = 1 << 14

// describeCgroup names the unit, or else the cgroup, in which a socket was created, and its pod. It
// returns "" if it finds no cgroup, and for the root cgroup: on hosts with cgroup version 1 all
// processes are in it.
func describeCgroup(id uint64) string {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} { // the second one is beside version 1
		var mount unix.Statfs_t
		if err := unix.Statfs(root, &mount); err != nil || mount.Type != unix.CGROUP2_SUPER_MAGIC || id == 0 {
			continue
		}
		if dir, found := searchCgroup(root, id); found {
			return describePath(strings.TrimPrefix(dir, root))
		}
	}
	return ""
}

var (
	// unitName is the innermost unit in a path. systemd adds an underscore before a name that could
	// conflict with a file of the kernel (cg_escape).
	unitName = regexp.MustCompile(`.*/_?([^/]+\.(?:service|scope|socket|mount|swap))(?:/|$)`)
	// podUID is the UID of a pod. Hyphens nest the slices of systemd, so the kubelet replaces
	// the hyphens of the UID with underscores.
	podUID = regexp.MustCompile(`/kubepods[./].*pod([0-9a-f_-]{32,36})(?:\.slice)?/`)
)

// describePath describes a path below the cgroup mount point, with the names of systemd
// (CONTROL_GROUP_INTERFACE), CRI-O and the kubelet:
//
//	/system.slice/otelcol.service
//	/user.slice/user-1000.slice/user@1000.service/app.slice/otelcol.service
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/crio-<id>.scope
//	/kubepods/burstable/pod<uid>/<id>
func describePath(cgroup string) string {
	cgroup = replaceUnprintable(cgroup)
	name := "cgroup " + cgroup
	if found := unitName.FindStringSubmatch(cgroup); found != nil {
		name = "unit " + found[1]
	}
	if found := podUID.FindStringSubmatch(cgroup); found != nil {
		name += ", pod " + strings.ReplaceAll(found[1], "_", "-")
	}
	return name
}

// searchCgroup searches for the directory whose inode number is the cgroup's ID. On 64-bit
// machines the two numbers are equal (include/linux/kernfs.h, kernfs_ino).
func searchCgroup(root string, id uint64) (dir string, found bool) {
	seen := 0
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // no process is in a directory that was removed meanwhile
			return fs.SkipDir
		case !entry.IsDir():
			return nil
		}
		if seen++; seen > maxCgroups {
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return fs.SkipDir
		}
		inode, links := inodeOf(info)
		switch {
		case inode == id && path != root:
			dir, found = path, true
			return fs.SkipAll
		case links == 2:
			// The link count of a directory is two, and one more per child cgroup
			// (fs/kernfs/inode.c, kernfs_refresh_inode). Most directories need not be read.
			return fs.SkipDir
		}
		return nil
	})
	return dir, found
}

func inodeOf(info fs.FileInfo) (inode, links uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, uint64(stat.Nlink) //nolint:unconvert // 32 bits on some machines
	}
	return 0, 0
}

// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// open opens a regular file, unless the kernel computes its content: reading such a file, which
// is regular too, can block or change something. It opens nothing else, because opening alone
// can change the state of a device, and checks again what it opened.
func open(path string) (*os.File, fs.FileMode, error) {
	byPath := func(s *unix.Statfs_t) error { return unix.Statfs(path, s) }
	if _, err := judge(path, func() (fs.FileInfo, error) { return os.Stat(path) }, byPath); err != nil {
		return nil, 0, err
	}
	fd, err := -1, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// The open is not nonblocking, so that Go does not poll the file: a file system that hangs
	// would hold up all other polling.
	err = unix.SetNonblock(fd, false)
	f := os.NewFile(uintptr(fd), path)
	mode, unfit := judge(path, f.Stat, func(s *unix.Statfs_t) error { return unix.Fstatfs(fd, s) })
	if err = errors.Join(err, unfit); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, mode, nil
}

// judge returns the mode of a file, or why it is not read.
func judge(path string, stat func() (fs.FileInfo, error), system func(*unix.Statfs_t) error) (fs.FileMode, error) {
	info, err := stat()
	if err != nil {
		return 0, err
	}
	var in unix.Statfs_t
	switch err := system(&in); {
	case err != nil:
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file: %w", path, ErrNotRegular)
	case slices.Contains(kernelFileSystems(), uint32(in.Type)): //nolint:gosec // all of these fit into 32 bits
		return 0, fmt.Errorf("%s is a file of the kernel, such as one in /proc or /sys: use a copy of it", path)
	}
	return info.Mode(), nil
}

// kernelFileSystems are those whose files are functions of the kernel (statfs(2)).
func kernelFileSystems() []uint32 {
	const configfs, fusectl, nfsd, rpcPipefs, resctrl = 0x62656570, 0x65735543, 0x6e667364, 0x67596969, 0x07655821
	return []uint32{
		unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.AAFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.BINFMTFS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
		unix.NSFS_MAGIC, unix.PIPEFS_MAGIC, unix.SOCKFS_MAGIC, unix.XENFS_SUPER_MAGIC, unix.ANON_INODE_FS_MAGIC,
		configfs, fusectl, nfsd, rpcPipefs, resctrl,
	}
}

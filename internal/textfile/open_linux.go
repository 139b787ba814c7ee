// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// open opens a regular file, unless the kernel invents it: such a file is regular too, and reading one can
// block, or change something. It opens nothing else, because that alone has effects on a device, and judges
// again what it has opened.
func open(path string) (*os.File, fs.FileMode, error) {
	var system unix.Statfs_t
	info, err := os.Stat(path)
	if err == nil {
		err = unix.Statfs(path, &system)
	}
	if err == nil {
		err = judge(path, info.Mode(), system)
	}
	if err != nil {
		return nil, 0, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	for err == unix.EINTR { //nolint:errorlint // the number itself
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// Not nonblocking, so that Go does not poll it: a file system that hangs would hold up all other polling.
	err = unix.SetNonblock(fd, false)
	f := os.NewFile(uintptr(fd), path)
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil {
		err = unix.Fstatfs(fd, &system)
	}
	if err == nil {
		err = judge(path, info.Mode(), system)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Mode(), nil
}

func judge(path string, mode fs.FileMode, system unix.Statfs_t) error {
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file: %w", path, ErrNotRegular)
	case slices.Contains(kernelFileSystems(), uint32(system.Type)): //nolint:gosec // all of these have 32 bits
		return fmt.Errorf("%s is a file of the kernel, such as one in /proc or /sys: use a copy of it", path)
	}
	return nil
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

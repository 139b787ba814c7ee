// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// maxDescriptors limits the search through the descriptors of all processes. Each costs
	// about a microsecond.
	maxDescriptors = 1 << 17
	batch          = 256
)

// Process is a process with an open socket.
type Process struct {
	PID  int    // in this process's PID namespace
	Comm string // name of its command; the kernel truncates it to 15 bytes; printable
}

// String returns text such as "process 123 (otelcol)".
func (p Process) String() string { return fmt.Sprintf("process %d (%s)", p.PID, p.Comm) }

// FindProcess returns a process that has the socket with an inode number open. It examines
// only processes whose descriptors this process may read (PTRACE_MODE_READ_FSCREDS,
// proc_pid_fd(5)), the likely ones first, and stops after maxDescriptors descriptors.
func FindProcess(inode uint64, likely ...int) (Process, bool) {
	w := descriptorSearch{target: fmt.Sprintf("socket:[%d]", inode), remaining: maxDescriptors}
	for _, pid := range likely {
		if w.hasDescriptor(pid) {
			return readProcess(pid)
		}
	}
	if pid, found := w.searchAllProcesses(); found {
		return readProcess(pid)
	}
	return Process{}, false
}

// readProcess returns false if the process has ended.
func readProcess(pid int) (Process, bool) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return Process{}, false
	}
	defer func() { _ = f.Close() }()
	comm, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return Process{}, false
	}
	return Process{PID: pid, Comm: replaceUnprintable(strings.TrimSuffix(string(comm), "\n"))}, true
}

// descriptorSearch searches for a descriptor of the target.
type descriptorSearch struct {
	target    string
	remaining int // number of descriptors that may still be examined
}

func (w *descriptorSearch) searchAllProcesses() (pid int, found bool) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, false
	}
	defer func() { _ = proc.Close() }()
	for w.remaining > 0 {
		names, err := proc.Readdirnames(batch)
		for _, name := range names {
			if pid, notOne := strconv.Atoi(name); notOne == nil && w.hasDescriptor(pid) {
				return pid, true
			}
		}
		if err != nil {
			break
		}
	}
	return 0, false
}

func (w *descriptorSearch) hasDescriptor(pid int) bool {
	path := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	for w.remaining > 0 {
		names, err := dir.Readdirnames(batch)
		w.remaining -= len(names)
		for _, name := range names {
			if target, err := os.Readlink(filepath.Join(path, name)); err == nil && target == w.target {
				return true
			}
		}
		if err != nil {
			break
		}
	}
	return false
}

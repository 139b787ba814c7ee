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
	// maxDescriptors bounds a walk over the processes' descriptors, of which
	// each costs about a microsecond.
	maxDescriptors = 1 << 17
	batch          = 256
)

// Process is one that has a socket open.
type Process struct {
	PID  int    // in this process's PID namespace
	Comm string // its command's name, cut by the kernel to 15 bytes; printable
}

// String is such as "process 123 (otelcol)".
func (p Process) String() string { return fmt.Sprintf("process %d (%s)", p.PID, p.Comm) }

// WithSocket finds a process that has the socket with an inode number open,
// among those whose descriptors this process may look at
// (PTRACE_MODE_READ_FSCREDS, proc_pid_fd(5)). Those that are likely to have it
// are looked at first; after maxDescriptors descriptors it gives up.
func WithSocket(inode uint64, likely ...int) (Process, bool) {
	w := walk{target: fmt.Sprintf("socket:[%d]", inode), left: maxDescriptors}
	for _, pid := range likely {
		if w.holds(pid) {
			return named(pid)
		}
	}
	if pid, found := w.everybody(); found {
		return named(pid)
	}
	return Process{}, false
}

// named fails when the process has ended meanwhile.
func named(pid int) (Process, bool) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return Process{}, false
	}
	defer func() { _ = f.Close() }()
	comm, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return Process{}, false
	}
	return Process{PID: pid, Comm: printable(strings.TrimSuffix(string(comm), "\n"))}, true
}

// walk looks for a descriptor that is the target.
type walk struct {
	target string
	left   int // descriptors that may still be looked at
}

func (w *walk) everybody() (pid int, found bool) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, false
	}
	defer func() { _ = proc.Close() }()
	for w.left > 0 {
		names, err := proc.Readdirnames(batch)
		for _, name := range names {
			if pid, notOne := strconv.Atoi(name); notOne == nil && w.holds(pid) {
				return pid, true
			}
		}
		if err != nil {
			break
		}
	}
	return 0, false
}

func (w *walk) holds(pid int) bool {
	path := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	for w.left > 0 {
		names, err := dir.Readdirnames(batch)
		w.left -= len(names)
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

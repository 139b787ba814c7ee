// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxDescriptors limits the search through the descriptors of all processes. Each costs about a
// microsecond.
const maxDescriptors = 1 << 17

// Process is a process with an open socket.
type Process struct {
	PID  int    // in this process's PID namespace
	Comm string // name of its command; the kernel truncates it to 15 bytes; printable
}

// String returns text such as "process 123 (otelcol)".
func (p Process) String() string { return fmt.Sprintf("process %d (%s)", p.PID, p.Comm) }

// FindProcess returns a process that holds the socket with an inode number. It examines
// only processes whose descriptors this process may read (PTRACE_MODE_READ_FSCREDS,
// proc_pid_fd(5)), the likely ones first, and stops after maxDescriptors descriptors.
func FindProcess(inode uint64, likely ...int) (Process, bool) {
	wanted, examined := fmt.Sprintf("socket:[%d]", inode), 0
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			likely = append(likely, pid)
		}
	}
	for _, pid := range likely {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		descriptors, _ := os.ReadDir(dir) // of a process that ended, or that this one may not examine: none
		for _, d := range descriptors {
			if examined++; examined > maxDescriptors {
				return Process{}, false
			}
			if found, err := os.Readlink(filepath.Join(dir, d.Name())); err == nil && found == wanted {
				comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm")) // at most 64 bytes
				return Process{pid, replaceUnprintable(strings.TrimSuffix(string(comm), "\n"))}, err == nil
			}
		}
	}
	return Process{}, false
}

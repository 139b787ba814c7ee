// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// childProcesses holds the IDs of the processes that [Start] started and that have not ended.
var childProcesses = struct { //nolint:gochecknoglobals // child processes belong to the whole process
	sync.Mutex
	adopting bool
	pids     map[int]bool
}{pids: make(map[int]bool)}

// BecomeSubreaper makes this process the parent of orphaned descendants (prctl(2),
// PR_SET_CHILD_SUBREAPER). They are killed when the child that left them ends. A confined child
// cannot start a process: this covers a child that was taken over before it installed its
// filter. The caller must start processes only with [Start].
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of what child processes leave behind: %w", err)
	}
	childProcesses.Lock()
	defer childProcesses.Unlock()
	childProcesses.adopting = true
	return nil
}

// maxOrphans bounds the rounds of killOrphans, since an orphan may start others. The unit
// permits half as many (TasksMax=).
const maxOrphans = 2048

// killOrphans kills the children that this process did not start, and their descendants.
func killOrphans() {
	childProcesses.Lock()
	defer childProcesses.Unlock()
	if !childProcesses.adopting {
		return
	}
	for range maxOrphans {
		pid := findOrphan()
		if pid == 0 {
			return
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// findOrphan returns the ID of a child that this process did not start, or 0 (proc(5),
// /proc/pid/task/tid/children). The caller holds the lock.
func findOrphan() int {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil && !childProcesses.pids[pid] {
				return pid
			}
		}
	}
	return 0
}

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

// childProcesses are the processes that [Start] has started and that have not ended.
var childProcesses = struct { //nolint:gochecknoglobals // of the whole process, as its children are
	sync.Mutex
	adopting bool
	pids     map[int]bool
}{pids: make(map[int]bool)}

// BecomeSubreaper has the kernel make this process the parent of whatever a child leaves
// behind (prctl(2), PR_SET_CHILD_SUBREAPER), and has that ended at the end of the
// child. A confined child cannot start a process, so this is for one that was taken
// over before. The caller starts no processes but by [Start].
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of what child processes leave behind: %w", err)
	}
	childProcesses.Lock()
	defer childProcesses.Unlock()
	childProcesses.adopting = true
	return nil
}

// maxOrphans bounds the rounds of killOrphans: the copies of copies.
const maxOrphans = 4 * maxThreads

// killOrphans ends the children of this process that it has not started, and theirs.
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

// findOrphan finds a child of this process that it has not started; 0 if there is none
// (proc(5), /proc/pid/task/tid/children). It needs the lock.
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

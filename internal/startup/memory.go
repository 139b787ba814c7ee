// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// delay is the time that a process needs to start, including the first checks of the
	// controller.
	delay = 2 * time.Second
	// interval is a little shorter than the two minutes after which the runtime collects by
	// itself, but returns nothing of a heap below 4 MiB.
	interval = 110 * time.Second
)

// ReleaseMemory returns the garbage of the start, soon, and then regularly what was used
// meanwhile. An idle process takes a long time to reach the heap of 4 MiB at which a collection
// begins, and would keep this heap.
func ReleaseMemory() { time.AfterFunc(delay, release) }

func release() {
	debug.FreeOSMemory()
	time.AfterFunc(interval, release)
}

// DisableHugePages makes the kernel use small pages for this process and its children
// (PR_SET_THP_DISABLE, prctl(2)). RHEL's default is a huge page for the first byte of each 2
// MiB. The runtime of Go touches a few bytes in many of them. A kernel that does not support
// this call does not use such pages.
func DisableHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

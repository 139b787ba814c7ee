// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// delay is the time that a process needs to start, including the first checks of the
// controller.
const delay = 2 * time.Second

// ReleaseMemory returns the garbage of the start, once and soon. An idle process never
// reaches the heap of 4 MiB at which the next collection begins.
func ReleaseMemory() { time.AfterFunc(delay, debug.FreeOSMemory) }

// DisableHugePages makes the kernel use small pages for this process and its children
// (PR_SET_THP_DISABLE, prctl(2)). RHEL's default is a huge page for the first byte of each 2
// MiB. The runtime of Go touches a few bytes in many of them. A kernel that does not support
// this call does not use such pages.
func DisableHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

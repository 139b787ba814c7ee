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
	// interval is shorter than the two minutes after which the runtime collects by itself. Such a
	// collection does not return the memory of a heap below 4 MiB.
	interval = 110 * time.Second
)

// ReleaseMemory returns unused memory to the kernel soon after the start, and then regularly. An
// idle process seldom reaches the heap of 4 MiB at which a collection begins, and would keep its
// garbage.
func ReleaseMemory() {
	time.AfterFunc(delay, func() { releaseRegularly(release()) })
}

// releaseRegularly returns memory again, unless the runtime has collected since then: a busy
// process would only take the memory again.
func releaseRegularly(collections int64) {
	time.AfterFunc(interval, func() {
		latest := countCollections()
		if latest == collections {
			latest = release()
		}
		releaseRegularly(latest)
	})
}

// release returns the number of collections, with its own.
func release() int64 {
	debug.FreeOSMemory()
	return countCollections()
}

func countCollections() int64 {
	var s debug.GCStats
	debug.ReadGCStats(&s)
	return s.NumGC
}

// DisableHugePages makes the kernel use small pages for this process and its children
// (PR_SET_THP_DISABLE, prctl(2)). RHEL's default is a huge page for the first byte of each 2
// MiB. The runtime of Go touches a few bytes in many of them. A kernel that does not support
// this call does not use such pages.
func DisableHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDisableHugePages: the kernel reports that this process has no huge pages.
func TestDisableHugePages(t *testing.T) {
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) })
	DisableHugePages()
	disabled, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err != nil || disabled != 1 {
		t.Errorf("PR_GET_THP_DISABLE: %d, %v", disabled, err)
	}
}

// TestRelease: memory that is not used any more is returned to the kernel.
func TestRelease(t *testing.T) {
	const size = 64 << 20
	var before, after runtime.MemStats
	used := make([]byte, size)
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(used)
	release()
	runtime.ReadMemStats(&after)
	if returned := int64(after.HeapReleased) - int64(before.HeapReleased); returned < size {
		t.Errorf("%d bytes of %d were returned", returned, size)
	}
}

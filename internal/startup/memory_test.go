// SPDX-License-Identifier: Apache-2.0

package startup

import (
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

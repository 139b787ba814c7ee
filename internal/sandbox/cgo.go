// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package sandbox

import "golang.org/x/sys/unix"

// cLibraryCalls returns the calls of the C library, with which a program is linked that
// was built with cgo: tests, and the race detector. Released programs have none.
func cLibraryCalls() []allowedCall {
	of := func(name string, number uint32) allowedCall {
		return allowedCall{name, number, allKinds, "threads and pauses of the C library", "", nil, nil}
	}
	return []allowedCall{
		of("clock_nanosleep", unix.SYS_CLOCK_NANOSLEEP),
		of("rseq", unix.SYS_RSEQ),
		of("set_robust_list", unix.SYS_SET_ROBUST_LIST),
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package sandbox

import "golang.org/x/sys/unix"

// cLibraryCalls returns the system calls of the C library. Only builds with cgo link it:
// tests, and the race detector. Released programs do not.
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

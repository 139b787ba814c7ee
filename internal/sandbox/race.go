// SPDX-License-Identifier: Apache-2.0

//go:build race

package sandbox

import "golang.org/x/sys/unix"

// raceDetector is true: the detector maps terabytes, which exceeds every data limit.
const raceDetector = true

// raceDetectorCalls returns the calls of the C library, which only a program with the
// detector links.
func raceDetectorCalls() []allowedCall {
	of := func(name string, number uint32) allowedCall {
		return allowedCall{name, number, allKinds, "threads and pauses of the C library", "", nil, nil}
	}
	return []allowedCall{
		of("clock_nanosleep", unix.SYS_CLOCK_NANOSLEEP),
		of("rseq", unix.SYS_RSEQ),
		of("set_robust_list", unix.SYS_SET_ROBUST_LIST),
	}
}

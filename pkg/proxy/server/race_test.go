// SPDX-License-Identifier: Apache-2.0

//go:build race

package server_test

// raceOverhead is the additional memory of a waiting challenge with the race detector: the
// stack of its goroutine has larger frames.
const raceOverhead = 2 << 10

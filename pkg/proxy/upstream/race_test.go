// SPDX-License-Identifier: Apache-2.0

//go:build race

package upstream

// raceOverhead is what the race detector adds to the memory of one that waits.
const raceOverhead = 8 << 10

// SPDX-License-Identifier: Apache-2.0

//go:build race

package upstream

// raceOverhead is the additional memory of a waiting exchange with the race
// detector.
const raceOverhead = 8 << 10

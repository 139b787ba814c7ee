// SPDX-License-Identifier: Apache-2.0

//go:build race

package upstream

// raceOverhead is the additional memory of a waiting exchange with the race detector, whose
// frames are larger: with TLS within TLS, the stack shrinks to 16 KiB in place of 8.
const raceOverhead = 16 << 10

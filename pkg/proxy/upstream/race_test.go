// SPDX-License-Identifier: Apache-2.0

//go:build race

package upstream

// raceTakes is what the race detector adds to the memory of one that waits.
const raceTakes = 8 << 10

// SPDX-License-Identifier: Apache-2.0

// Package slowsync starts a program whose fsync(2) and fdatasync(2) take longer, as on a
// slow disk. Its other system calls run at full speed. Tests and benchmarks link it.
package slowsync

// SPDX-License-Identifier: Apache-2.0

// Package statewriter writes the files of the state directory, so that no other goroutine waits for
// a disk. The controller links it.
package statewriter

// SPDX-License-Identifier: Apache-2.0

// Package settled decides when a changed file takes effect, and keeps the last good value of a
// file. The controller, check and the administrator's tool link it.
//
// A file that is written in place is incomplete for a moment, and an incomplete file can
// be valid. A change therefore takes effect after the file kept the same content for
// a while. A file that is rejected never takes effect: the last good value stays in use.
package settled

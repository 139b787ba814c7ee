// SPDX-License-Identifier: Apache-2.0

// Package challengelog turns the requests for each challenge into a few journal entries:
// one when the challenge starts, one when the outcome changes, and one when it ended.
// It follows challenges without entries too, so that no flood hides a failed renewal. It does no
// I/O. The controller links it.
package challengelog

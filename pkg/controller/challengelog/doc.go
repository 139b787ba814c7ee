// SPDX-License-Identifier: Apache-2.0

// Package challengelog makes the story of each challenge out of its requests: a line
// when it begins, one when the outcome changes, and one when it is over. It is
// pure: who tells it of requests writes the lines.
package challengelog

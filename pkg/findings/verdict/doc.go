// SPDX-License-Identifier: Apache-2.0

// Package verdict decides what is wrong according to a report. The text, the page, the JSON and
// the status line of systemd follow it, so that they cannot differ. The controller and the
// commands link it.
package verdict

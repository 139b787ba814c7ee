// SPDX-License-Identifier: Apache-2.0

// Package page owns the HTML form of the status report: one file without scripts, links or
// images, for a browser without a network. The status commands of both programs link it.
package page

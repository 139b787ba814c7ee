// SPDX-License-Identifier: Apache-2.0

// Package terminal owns the text form of the status report. The status command links it.
package terminal

// SPDX-License-Identifier: Apache-2.0

// Package report owns the status report: conditions, states, counters and causes, in the
// JSON form of `status -o json`. Every process links it.
package report

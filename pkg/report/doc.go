// SPDX-License-Identifier: Apache-2.0

// Package report owns what is known now: the state and its reason, the Answered,
// the table, the upstreams and the last challenges.
package report

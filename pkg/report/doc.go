// SPDX-License-Identifier: Apache-2.0

// Package report owns what is known now: the state and its reason, the VIPs,
// the table, the upstreams and the last challenges.
package report

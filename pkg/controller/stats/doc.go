// SPDX-License-Identifier: Apache-2.0

// Package stats records what the proxy process reports about requests: the tracker gets the counts,
// and the journal gets each challenge and a line a minute for everything else. The controller links
// it.
package stats

// SPDX-License-Identifier: Apache-2.0

package diagnose

import "net/netip"

// Coordination connects a check to the checks of the other hosts (`oc http01 check`). Without
// it, or after the connection to the coordinator ends, the check uses its own timing.
type Coordination struct {
	// Started reports the API VIPs of this host, once.
	Started func(held []netip.Addr)
	// Trace is closed when the checks of all hosts run: a host with VIPs creates its tables,
	// and calls Tracing, once. Test is closed when all of them did. Both are closed within the
	// time that the coordinator announced, also without it.
	Trace   <-chan struct{}
	Tracing func()
	Test    <-chan struct{}
	// End is closed when the other hosts are finished. It may stay open.
	End <-chan struct{}
}

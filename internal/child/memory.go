// SPDX-License-Identifier: Apache-2.0

package child

import (
	"math"
	"runtime/debug"
)

// The shares of the memory limit that the unit sets by GOMEMLIMIT for all processes
// together. Without shares, the unit's hard limit would end any of the processes, not only
// the one that exceeds its share. Memory that clients occupy is the proxy's, so that it
// gets what the others leave.
const (
	ControllerMemory = 48 << 20
	smallChildMemory = 32 << 20 // of the exporter, and of the prober
	smallChildren    = 2        // of them run at a time
	minProxyMemory   = 64 << 20
)

// totalMemory is the limit that GOMEMLIMIT sets. It is read before the controller sets
// its own share as the limit.
var totalMemory = debug.SetMemoryLimit(-1) //nolint:gochecknoglobals // see above

// memoryLimit returns the share of the child process that runs a command. If total is no limit,
// the proxy gets none either.
func memoryLimit(command string, total int64) (limit int64, limited bool) {
	switch {
	case command != Proxy:
		return smallChildMemory, true
	case total == math.MaxInt64:
		return 0, false
	default:
		return max(minProxyMemory, total-ControllerMemory-smallChildren*smallChildMemory), true
	}
}

// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"strconv"
	"strings"
)

// What the processes of a service may take of the memory that GOMEMLIMIT, which the
// unit sets, gives to all of them together: a limit of the unit's ends one of
// them, and not the one that has taken too much. The gate, which clients have hold
// memory, has what the others leave.
const (
	ControllerMemory = 48 << 20
	smallChildMemory = 32 << 20 // of each child but the gate
	smallChildren    = 2        // the exporter, and the probe
	minProxyMemory   = 64 << 20 // of the gate
)

const memoryLimitVariable = "GOMEMLIMIT"

// memoryLimitEntry is the limit for the child that runs a command, as an entry of its
// environment; none when whole, the variable's value, sets none and the child is
// the gate.
func memoryLimitEntry(command, whole string) (entry string, is bool) {
	limit := int64(smallChildMemory)
	if command == "proxy" {
		all, is := parseMemory(whole)
		if !is {
			return "", false
		}
		limit = max(minProxyMemory, all-ControllerMemory-smallChildren*smallChildMemory)
	}
	return fmt.Sprintf("%s=%dMiB", memoryLimitVariable, limit>>20), true
}

// parseMemory reads what package runtime reads: a number of bytes, perhaps with a
// unit. "off", or what is none, is no limit.
func parseMemory(text string) (bytes int64, is bool) {
	number, unit := strings.TrimSuffix(text, "B"), int64(1)
	for i, suffix := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if short, has := strings.CutSuffix(number, suffix); has {
			number, unit = short, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

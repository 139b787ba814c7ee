// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const maxOffset = time.Minute

// Reading is the reading of another clock.
type Reading struct {
	Server string
	Offset time.Duration // by which this host's clock is behind
}

// Readings are the readings of the time servers in a file.
type Readings struct {
	ConfPath string
	Servers  []string
	All      []Reading // of those that responded
}

// Check compares this host's clock with others.
func (r Readings) Check() result.Result {
	if len(r.All) == 0 {
		return result.Skip("no time server responds (servers in %s: %s); the kernel reports that the clock is %s",
			r.ConfPath, cmp.Or(strings.Join(r.Servers, ", "), "none"), kernelState())
	}
	// Most of them are right. A single wrong one is not a fault of this host.
	all := slices.SortedFunc(slices.Values(r.All), func(a, b Reading) int {
		return cmp.Compare(a.Offset.Abs(), b.Offset.Abs())
	})
	middle := all[(len(all)-1)/2]
	if middle.Offset.Abs() <= maxOffset {
		return result.Pass("%v offset to %s", middle.Offset.Abs().Round(time.Millisecond), middle.Server)
	}
	direction := "ahead of"
	if middle.Offset > 0 {
		direction = "behind"
	}
	return result.Found(findings.ClockOffset, findings.Values{
		"off": middle.Offset.Abs().Round(time.Second).String(), "direction": direction, "server": middle.Server,
	})
}

// kernelState is the synchronisation state from adjtimex(2).
func kernelState() string {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		return "unknown: " + err.Error()
	case state == unix.TIME_ERROR:
		return "not synchronised"
	default:
		return "synchronised"
	}
}

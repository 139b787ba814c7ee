// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The bounds of a trace.
const (
	defaultTrace     = 30 * time.Second
	minTrace         = time.Second
	maxTrace         = 10 * time.Minute
	maxTracedPackets = 1000 // without replies
)

// TraceFlags select the packets of a trace.
type TraceFlags struct {
	Duration time.Duration
	Count    int
	From     netip.Addr // invalid: all clients
}

// Add adds the flags to a command.
func (f *TraceFlags) Add(c *cobra.Command) {
	flags := c.Flags()
	flags.DurationVar(&f.Duration, "duration", defaultTrace, "end after this `DURATION`, 1s to 10m")
	flags.IntVar(&f.Count, "count", maxTracedPackets,
		fmt.Sprintf("end after this `NUMBER` of packets, without replies, 1 to %d", maxTracedPackets))
	flags.Var(address{&f.From}, "from",
		"trace packets of the client with this `ADDRESS` only, and the replies (default: all clients)")
}

// address is the value of a flag with an IP address.
type address struct{ addr *netip.Addr }

func (a address) String() string {
	if a.addr == nil || !a.addr.IsValid() { // pflag's zero value, or no address
		return ""
	}
	return a.addr.String()
}

func (address) Type() string { return "address" }

func (a address) Set(text string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return errors.New("use an IP address, such as 203.0.113.9")
	}
	*a.addr = addr.Unmap()
	return nil
}

// Validate rejects values out of bounds.
func (f *TraceFlags) Validate() error {
	switch {
	case f.Duration < minTrace || f.Duration > maxTrace:
		return UsageError(fmt.Sprintf("--duration %v: give 1s to 10m", f.Duration))
	case f.Count < 1 || f.Count > maxTracedPackets:
		return UsageError(fmt.Sprintf("--count %d: give 1 to %d", f.Count, maxTracedPackets))
	case f.From.Zone() != "":
		return UsageError(fmt.Sprintf("--from %v: remove the zone %%%s", f.From, f.From.Zone()))
	}
	return nil
}

// TraceExitCode is the exit code for packets of one or several hosts.
func TraceExitCode(packets []report.TracedPacket) error {
	if len(packets) == 0 {
		return ExitCode(Unknown)
	}
	for _, p := range packets {
		if p.Failed() {
			return ExitCode(Unhealthy)
		}
	}
	return nil
}

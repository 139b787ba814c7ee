// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Options select the packets.
type Options struct {
	Held    []netip.Addr // API VIPs of this host: requests of clients, and the replies
	Standby []netip.Addr // API VIPs of other hosts: requests of this host, and the replies
	From    netip.Addr   // only packets of this client; invalid: of all
	Local   bool         // requests of this host to VIPs that it holds, too
}

// Trace is a running trace.
type Trace struct{}

// Start adds tables of its own, which the kernel removes with this process, and follows the
// packets. The prober process decodes the kernel's events.
func Start(context.Context, Options, *prober.Client) (*Trace, error) {
	return nil, errors.New("not implemented")
}

// Next waits for packets whose path is complete, until ctx ends. ctx has a deadline; its end is
// no error.
func (t *Trace) Next(context.Context) ([]report.TracedPacket, error) { return nil, nil }

// Devices are the network devices at whose ingress packets are traced.
func (t *Trace) Devices() []report.TracedDevice { return nil }

// Close removes the tables.
func (t *Trace) Close() error { return nil }

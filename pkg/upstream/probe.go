// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Reachability is what one ingress address said to a connection attempt.
type Reachability struct {
	Addr netip.AddrPort
	Err  *Error // nil when it accepted
}

// Probe opens a connection to each ingress address, side by side, and closes it
// again. The result is in the order of the settings.
func (c *Client) Probe(ctx context.Context) []Reachability {
	r, connect := c.current()
	found := make([]Reachability, len(r.addrs))
	var all sync.WaitGroup
	for i, addr := range r.addrs {
		all.Go(func() { found[i] = probe(ctx, addr, connect) })
	}
	all.Wait()
	return found
}

func probe(ctx context.Context, addr netip.AddrPort, timeout time.Duration) Reachability {
	dialer := newDialer(timeout)
	tcp, err := dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, addr)
	found := Reachability{Addr: addr}
	if err != nil {
		found.Err = dialError(addr, err)
		return found
	}
	_ = tcp.Close()
	return found
}

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
// again. An egress proxy on the way is asked for a tunnel; in plain HTTP there is
// none, and the connection to the proxy is all. The result is in the order of the
// settings.
func (c *Client) Probe(ctx context.Context) []Reachability {
	r := c.current()
	found := make([]Reachability, len(r.addrs(false)))
	var all sync.WaitGroup
	for i, addr := range r.addrs(false) {
		all.Go(func() { found[i] = Reachability{addr, c.probe(ctx, r, addr)} })
	}
	all.Wait()
	return found
}

func (c *Client) probe(ctx context.Context, r *route, addr netip.AddrPort) *Error {
	w := r.way(addr, &Request{}, false)
	if w.via != nil {
		return c.probeThrough(ctx, w, r.connect)
	}
	tcp, err := dialTCP(ctx, addr, r.connect)
	if err != nil {
		return dialError(addr, err)
	}
	_ = tcp.Close()
	return nil
}

// probeThrough goes the steps to the proxy, and to the ingress behind it.
func (c *Client) probeThrough(ctx context.Context, w way, timeout time.Duration) *Error {
	tcp, failure := c.approach(w, timeout)
	if failure != nil {
		return failure
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
	bottom, err := newSocket(tcp)
	if err != nil {
		return dialError(w.addr, err)
	}
	by, _ := ctx.Deadline()
	if by.IsZero() {
		by = time.Now().Add(timeout)
	}
	a := attempt{way: w, room: w.via.room, connect: timeout, deadline: by, first: by}
	beneath, _, failure := c.greetProxy(bottom, a)
	if failure == nil && !w.absolute() {
		_, failure = a.tunnel(beneath)
	}
	return failure
}

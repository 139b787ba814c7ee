// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Reachability is the result of a connection attempt to one ingress address.
type Reachability struct {
	Addr netip.AddrPort
	Err  *Error // nil: the connection was accepted
}

// Probe opens a connection to each ingress address in parallel, and closes it
// again. If an egress proxy is on the route, Probe requests a tunnel. In plain HTTP
// there is no tunnel, and Probe tests only the connection to the proxy. The result
// is in the order of the settings.
func (c *Client) Probe(ctx context.Context) []Reachability {
	settings := c.currentSettings()
	results := make([]Reachability, len(settings.addrs(false)))
	var all sync.WaitGroup
	for i, addr := range settings.addrs(false) {
		all.Go(func() { results[i] = Reachability{addr, c.probeAddress(ctx, settings, addr)} })
	}
	all.Wait()
	return results
}

func (c *Client) probeAddress(ctx context.Context, settings *activeSettings, addr netip.AddrPort) *Error {
	route := settings.routeTo(addr, &Request{}, false)
	if route.proxy != nil {
		return c.probeThroughProxy(ctx, route, settings.connectTimeout)
	}
	tcp, err := dialTCP(ctx, addr, settings.connectTimeout)
	if err != nil {
		return DialError(addr, err)
	}
	_ = tcp.Close()
	return nil
}

// probeThroughProxy opens the connection to the proxy, and the tunnel to the
// ingress.
func (c *Client) probeThroughProxy(ctx context.Context, route upstreamRoute, timeout time.Duration) *Error {
	tcp, failure := c.dialRoute(route, timeout)
	if failure != nil {
		return failure
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
	by, _ := ctx.Deadline()
	if by.IsZero() {
		by = time.Now().Add(timeout)
	}
	a := &attempt{route: route, handshakes: route.proxy.handshakes, connectTimeout: timeout, deadline: by, firstByteBy: by}
	beneath, failure := c.handshakeProxy(&socket{TCPConn: tcp}, a)
	if failure == nil && !route.usesAbsoluteForm() {
		_, failure = a.openTunnel(beneath)
	}
	return failure
}

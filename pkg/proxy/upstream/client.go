// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// Client forwards requests to the ingress. It is safe for concurrent use.
type Client struct {
	ctx         context.Context // done after Close
	cancel      context.CancelFunc
	maxIdleTime time.Duration // IdleTimeout, except in tests
	dialFunc    dialFunc      // dialTCP, except in tests
	active      atomic.Pointer[activeSettings]
}

// New returns a client without addresses. Update sets them.
func New() *Client {
	c := &Client{maxIdleTime: IdleTimeout, dialFunc: dialTCP}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.active.Store(&activeSettings{})
	return c
}

// Update applies settings to exchanges that begin from now on. No idle connection of other
// settings is used again: it expires. Exchanges in progress end under the old settings.
func (c *Client) Update(s Settings) { c.active.Store(newActiveSettings(s)) }

// Close closes every connection. Exchanges in progress end with Stopped. The client
// cannot be used afterwards.
func (c *Client) Close() { c.cancel() }

// probeTimeout bounds a probe of all addresses.
const probeTimeout = 10 * time.Second

// Probe opens a connection to each ingress address in parallel, and closes it
// again. If an egress proxy is on the route, Probe requests a tunnel. In plain HTTP
// there is no tunnel, and Probe tests only the connection to the proxy. The result
// is in the order of the settings.
func (c *Client) Probe(ctx context.Context) []protocol.Reachability {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	settings := c.active.Load()
	results := make([]protocol.Reachability, len(settings.routes(false)))
	var all sync.WaitGroup
	for i, route := range settings.routes(false) {
		all.Go(func() {
			conn, failure := c.reach(ctx, &attempt{
				route: route, connectTimeout: settings.ConnectTimeout, firstByteBy: time.Now().Add(probeTimeout),
			})
			results[i].Addr = cause.WithoutZone(route.addr)
			if failure != nil {
				results[i].Failure = new(failure.Failure())
			} else {
				conn.abort()
			}
		})
	}
	all.Wait()
	return results
}

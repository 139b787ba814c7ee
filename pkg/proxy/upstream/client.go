// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	// maxIdle bounds the idle connections of one address.
	maxIdle = 64
	// idleTimeout is how long an idle connection is kept. OpenShift's router closes
	// it after 10 s (timeout http-request).
	idleTimeout = 5 * time.Second
)

// Settings are all values that a Client uses.
type Settings struct {
	ingress.Upstream

	TrustedCAs *TrustedCAs // verify routers; nil: none. The same pointer keeps the TLS sessions
	Egress     ingress.Egress
}

// Client forwards requests to the ingress. It is safe for concurrent use.
type Client struct {
	ctx         context.Context // done after Close
	cancel      context.CancelFunc
	maxIdleTime time.Duration // idleTimeout, except in tests
	relays      sync.Pool     // of *Relay

	active atomic.Pointer[activeSettings]

	dialFunc func(addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) // dialTCP, except in tests

	mu         sync.Mutex
	idle       map[netip.AddrPort][]*conn // the longest idle first
	busy       map[*conn]struct{}
	pruneTimer *time.Timer // closes expired connections; nil while none is idle
	closed     bool
}

// New returns a client without addresses. Update sets them.
func New() *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		ctx:         ctx,
		cancel:      cancel,
		maxIdleTime: idleTimeout,
		relays:      sync.Pool{New: func() any { return new(Relay) }},
		idle:        make(map[netip.AddrPort][]*conn),
		busy:        make(map[*conn]struct{}),
	}
	c.active.Store(&activeSettings{})
	c.dialFunc = func(addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
		return dialTCP(ctx, addr, timeout)
	}
	return c
}

// Update applies settings to exchanges that begin from now on. It closes idle
// connections that the new settings would not open. Exchanges in progress end under
// the old settings.
func (c *Client) Update(s Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	active := newActiveSettings(s, c.currentSettings())
	c.active.Store(active)
	c.closeIdle(func(conn *conn) bool { return !active.includes(conn.route) })
}

// Close closes every connection. Exchanges in progress end with Stopped. The client
// cannot be used afterwards.
func (c *Client) Close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.closeIdle(func(*conn) bool { return true })
	for conn := range c.busy {
		conn.abort()
	}
}

// closeIdle closes the idle connections for which drop returns true. The caller
// holds mu.
func (c *Client) closeIdle(drop func(*conn) bool) {
	left := false
	for addr, list := range c.idle {
		list = slices.DeleteFunc(list, func(conn *conn) bool {
			if !drop(conn) {
				return false
			}
			_ = conn.Close()
			return true
		})
		if len(list) == 0 {
			delete(c.idle, addr)
			continue
		}
		c.idle[addr] = list
		left = true
	}
	if !left && c.pruneTimer != nil {
		c.pruneTimer.Stop()
		c.pruneTimer = nil
	}
}

func (c *Client) currentSettings() *activeSettings { return c.active.Load() }

// reuseIdle returns the last used idle connection of the route that can take a request, or
// nil.
func (c *Client) reuseIdle(route upstreamRoute, now time.Time) *conn {
	for {
		idle := c.popIdle(route)
		if idle == nil {
			return nil
		}
		if now.Sub(idle.idleSince) < c.maxIdleTime && idle.isQuiet() {
			return idle
		}
		c.discard(idle)
	}
}

func (c *Client) popIdle(route upstreamRoute) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.idle[route.addr]
	for i := len(list) - 1; i >= 0; i-- {
		if conn := list[i]; conn.route == route {
			c.idle[route.addr] = slices.Delete(list, i, i+1)
			c.busy[conn] = struct{}{}
			return conn
		}
	}
	return nil
}

// putIdle stores a connection after a complete response. An address has room for
// maxIdle connections; the longest idle one is closed for a new one.
func (c *Client) putIdle(conn *conn, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	if c.closed || conn.route.proxyProtocol != ingress.ProxyProtocolOff || !c.currentSettings().includes(conn.route) {
		_ = conn.Close()
		return
	}
	addr := conn.route.addr
	list := c.idle[addr]
	if len(list) >= maxIdle {
		_ = list[0].Close()
		list = slices.Delete(list, 0, 1)
	}
	conn.idleSince = now
	c.idle[addr] = append(list, conn)
	if c.pruneTimer == nil {
		c.pruneTimer = time.AfterFunc(c.maxIdleTime, c.closeExpired)
	}
}

// release ends an exchange. It keeps the connection for the next one if that is possible.
func (c *Client) release(conn *conn, x *Relay) {
	if x.Reusable() {
		c.putIdle(conn, time.Now())
	} else {
		c.discard(conn)
	}
}

func (c *Client) discard(conn *conn) {
	c.mu.Lock()
	delete(c.busy, conn)
	c.mu.Unlock()
	conn.abort()
}

// closeExpired runs while connections are idle, so that none stays in CLOSE_WAIT
// until the next challenge.
func (c *Client) closeExpired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pruneTimer == nil {
		return
	}
	before := time.Now().Add(-c.maxIdleTime)
	c.closeIdle(func(conn *conn) bool { return !conn.idleSince.After(before) })
	if c.pruneTimer != nil {
		c.pruneTimer.Reset(c.maxIdleTime)
	}
}

// Request is one challenge that is forwarded. The memory that it refers to does not
// change until Exchange returns.
type Request struct {
	Deadline time.Time
	VIP      netip.AddrPort // destination of the client before the redirect; addresses of its family are tried first
	Client   netip.AddrPort
	Head     []byte // one complete head of a GET or HEAD, in origin-form
	Host     string // in canonical form, without a port; empty if the client sent none
	Target   []byte // as in Head
	IsHead   bool   // the method is HEAD
	HTTP10   bool   // the client does not support chunks

	// What the caller has done already, by a [Direct] route.
	Failed     *Error // at the first address
	Redirected bool   // it has received a redirect that is followed
}

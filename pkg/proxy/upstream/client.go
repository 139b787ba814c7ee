// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdle bounds the kept connections of one address.
	maxIdle = 64
	// idleTimeout is how long a connection is kept unused: well below the 10 s
	// after which OpenShift's router (timeout http-request) closes it.
	idleTimeout = 5 * time.Second
)

// Settings say where the ingress is, and how it is asked.
type Settings struct {
	Ingress         []netip.Addr // in order of preference within a family
	Port            uint16
	HTTPSPort       uint16        // for TLS
	Secure          bool          // TLS from the start
	FollowRedirects bool          // to the same by TLS
	Trust           *Trust        // by which TLS is verified; nil trusts nothing. The same as before means the same sessions
	VerifyNames     []string      // that a router's certificate may be for instead of the request's host
	ConnectTimeout  time.Duration // of each step of opening a connection
	ProxyProtocol   ProxyProtocol // which every connection to the ingress begins with
	Egress          Egress        // what is reached through a proxy
}

// Client is the way to the ingress. It is safe for concurrent use.
type Client struct {
	dialing context.Context // ends with Close
	stop    context.CancelFunc
	unused  time.Duration // how long an unused connection is kept: idleTimeout
	buffers sync.Pool     // of *exchange

	connect func(addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) // dial, but for tests

	mu     sync.Mutex
	route  *route
	idle   map[netip.AddrPort][]*conn // the longest unused first
	busy   map[*conn]struct{}
	prune  *time.Timer // closes what stays unused; nil while nothing is idle
	closed bool
}

// New returns a client that knows no address yet: Update brings them.
func New() *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		dialing: ctx,
		stop:    cancel,
		unused:  idleTimeout,
		buffers: sync.Pool{New: func() any { return newExchange() }},
		route:   &route{},

		idle: make(map[netip.AddrPort][]*conn),
		busy: make(map[*conn]struct{}),
	}
	c.connect = c.dial
	return c
}

// Update puts settings in force for the exchanges that begin from now on. The
// kept connections that these would not make are closed; exchanges under way end
// as they began.
func (c *Client) Update(s Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.route = newRoute(s, c.route)
	c.dropIdle(func(conn *conn) bool { return !c.route.leads(conn.way) })
}

// Close closes every connection, those of exchanges under way included, which
// end with Stopped. The client cannot be used afterwards.
func (c *Client) Close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.dropIdle(func(*conn) bool { return true })
	for conn := range c.busy {
		_ = conn.Close()
	}
}

// dropIdle closes kept connections. It needs mu.
func (c *Client) dropIdle(drop func(*conn) bool) {
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
	if !left && c.prune != nil {
		c.prune.Stop()
		c.prune = nil
	}
}

// current returns what is in force.
func (c *Client) current() *route {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.route
}

// reuse takes the kept connection of that way that was used last, or returns nil.
func (c *Client) reuse(w way, now time.Time) *conn {
	for {
		kept := c.take(w)
		if kept == nil {
			return nil
		}
		if now.Sub(kept.since) < c.unused {
			return kept
		}
		c.discard(kept)
	}
}

func (c *Client) take(w way) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.idle[w.addr]
	for i := len(list) - 1; i >= 0; i-- {
		if kept := list[i]; kept.way == w {
			c.idle[w.addr] = slices.Delete(list, i, i+1)
			c.busy[kept] = struct{}{}
			return kept
		}
	}
	return nil
}

// keep puts a connection back after a complete answer. One address has room for
// maxIdle, of which the one that is unused for the longest makes room.
func (c *Client) keep(conn *conn, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	if c.closed || conn.way.header != ProxyProtocolOff || !c.route.leads(conn.way) {
		_ = conn.Close()
		return
	}
	addr := conn.way.addr
	list := c.idle[addr]
	if len(list) >= maxIdle {
		_ = list[0].Close()
		list = slices.Delete(list, 0, 1)
	}
	conn.since = now
	c.idle[addr] = append(list, conn)
	if c.prune == nil {
		c.prune = time.AfterFunc(c.unused, c.closeUnused)
	}
}

func (c *Client) discard(conn *conn) {
	c.mu.Lock()
	delete(c.busy, conn)
	c.mu.Unlock()
	_ = conn.Close()
}

// closeUnused runs while connections are kept, so that none waits unused in
// CLOSE_WAIT until the next challenge.
func (c *Client) closeUnused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prune == nil {
		return
	}
	before := time.Now().Add(-c.unused)
	c.dropIdle(func(conn *conn) bool { return !conn.since.After(before) })
	if c.prune != nil {
		c.prune.Reset(c.unused)
	}
}

// dial opens a TCP connection.
func (c *Client) dial(addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	return dialTCP(c.dialing, addr, timeout)
}

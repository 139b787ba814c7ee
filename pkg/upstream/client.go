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

// Settings say where the ingress is.
type Settings struct {
	Ingress        []netip.Addr // in order of preference within a family
	Port           uint16
	ConnectTimeout time.Duration // of one connection attempt
}

// route is one accepted Settings; a new one retires the connections of the old.
type route struct {
	addrs   []netip.AddrPort
	connect time.Duration
}

// Client is the way to the ingress. It is safe for concurrent use.
type Client struct {
	dialing context.Context // ends with Close
	stop    context.CancelFunc
	unused  time.Duration // how long an unused connection is kept: idleTimeout
	buffers sync.Pool     // of *exchange

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
	return &Client{
		dialing: ctx,
		stop:    cancel,
		unused:  idleTimeout,
		buffers: sync.Pool{New: func() any { return newExchange() }},
		route:   &route{},
		idle:    make(map[netip.AddrPort][]*conn),
		busy:    make(map[*conn]struct{}),
	}
}

// Update puts settings in force for the exchanges that begin from now on. When
// the addresses change, the kept connections are closed; exchanges under way
// end as they began.
func (c *Client) Update(s Settings) {
	next := &route{connect: s.ConnectTimeout}
	for _, addr := range s.Ingress {
		next.addrs = append(next.addrs, netip.AddrPortFrom(addr.Unmap(), s.Port))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(next.addrs, c.route.addrs) {
		// The connections kept under the old one stay good.
		c.route.connect = s.ConnectTimeout
		return
	}
	c.route = next
	c.dropIdle()
}

// Close closes every connection, those of exchanges under way included, which
// end with Stopped. The client cannot be used afterwards.
func (c *Client) Close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.dropIdle()
	for conn := range c.busy {
		_ = conn.Close()
	}
}

// dropIdle needs mu.
func (c *Client) dropIdle() {
	for addr, list := range c.idle {
		for _, conn := range list {
			_ = conn.Close()
		}
		delete(c.idle, addr)
	}
	if c.prune != nil {
		c.prune.Stop()
		c.prune = nil
	}
}

// current returns the addresses and the bound of a connection attempt.
func (c *Client) current() (r *route, connect time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.route, c.route.connect
}

// reuse takes the kept connection to addr that was used last, or returns nil.
func (c *Client) reuse(addr netip.AddrPort, now time.Time) *conn {
	for {
		kept := c.take(addr)
		if kept == nil {
			return nil
		}
		if now.Sub(kept.since) < c.unused {
			return kept
		}
		c.discard(kept)
	}
}

func (c *Client) take(addr netip.AddrPort) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.idle[addr]
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1]
	list[len(list)-1] = nil
	c.idle[addr] = list[:len(list)-1]
	c.busy[last] = struct{}{}
	return last
}

// keep puts a connection back after a complete answer.
func (c *Client) keep(conn *conn, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	list := c.idle[conn.addr]
	if c.closed || conn.route != c.route || len(list) >= maxIdle {
		_ = conn.Close()
		return
	}
	conn.since = now
	c.idle[conn.addr] = append(list, conn)
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
	left := false
	for addr, list := range c.idle {
		n := 0
		for n < len(list) && !list[n].since.After(before) {
			_ = list[n].Close()
			n++
		}
		list = slices.Delete(list, 0, n)
		c.idle[addr] = list
		left = left || len(list) > 0
	}
	if !left {
		c.prune = nil
		return
	}
	c.prune.Reset(c.unused)
}

// dial opens a connection within timeout.
func (c *Client) dial(addr netip.AddrPort, r *route, timeout time.Duration) (*conn, error) {
	tcp, err := c.connect(addr, timeout)
	if err != nil {
		return nil, err
	}
	conn, err := newConn(tcp, addr, r)
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.busy[conn] = struct{}{}
	return conn, nil
}

// connect has the connection opened on another stack. It takes twice what
// waiting for an answer does, and a stack that has grown shrinks only with a
// garbage collection: thousands that wait would hold it all the while.
func (c *Client) connect(addr netip.AddrPort, timeout time.Duration) (tcp *net.TCPConn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tcp, err = newDialer(timeout).DialTCP(c.dialing, "tcp", netip.AddrPort{}, addr)
	}()
	<-done // within timeout
	return tcp, err
}

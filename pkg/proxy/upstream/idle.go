// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	// maxIdle bounds the idle connections. A burst of requests needs one for each, and a
	// handshake costs more than ten requests. The client keeps at most an eighth of
	// MaxConnections. The event loops do the same, and the controller reserves descriptors for
	// both.
	maxIdle = 512
	// IdleTimeout is how long an idle connection is kept. OpenShift's router closes
	// it after 10 s (timeout http-request).
	IdleTimeout = 5 * time.Second
	// MaxUnacknowledged is how long the ingress may take to acknowledge a request on a kept
	// connection after TCP repeated it: after 200 ms, or more if the handshake was slow. The
	// path may have ended without a sign: its source address was a VIP that left, or a node is
	// down. Then the request is sent again on a new connection.
	MaxUnacknowledged = 200 * time.Millisecond
)

// idleConns holds the connections that wait for the next request. The zero value keeps none.
type idleConns struct {
	limit int
	mu    sync.Mutex
	list  []*conn // the longest idle first
}

// take returns the last used connection of the route for the same host that can take a request,
// or nil. Bytes that arrive unrequested after the next request was sent look like its response:
// no client of another host gets them.
func (p *idleConns) take(r *upstreamRoute, host string) *conn {
	for {
		c := p.remove(func(c *conn) bool { return c.route == r && c.host == host })
		if c == nil || c.isQuiet() {
			return c
		}
		c.abort()
	}
}

// drop closes the connections of the route.
func (p *idleConns) drop(r *upstreamRoute) {
	ofRoute := func(c *conn) bool { return c.route == r }
	for c := p.remove(ofRoute); c != nil; c = p.remove(ofRoute) {
		c.abort()
	}
}

// remove takes the last used connection out that matches, or returns nil.
func (p *idleConns) remove(matches func(*conn) bool) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range slices.Backward(p.list) {
		if matches(c) {
			c.expiry.Stop() // if it is late, it finds nothing
			p.list = slices.Delete(p.list, i, i+1)
			return c
		}
	}
	return nil
}

// put keeps a connection after a complete response, for the given time, unless its next
// request could wait for a path that ended. The longest idle one is closed when there is
// no room.
func (p *idleConns) put(c *conn, timeout time.Duration) {
	excess := c
	limit := func(fd int) error { return sockopt.LimitUnacknowledged(fd, MaxUnacknowledged) }
	c.kept = p.limit > 0 && c.route.proxyProtocol == ingress.ProxyProtocolOff && (c.kept || c.control(limit) == nil)
	p.mu.Lock()
	if c.kept {
		excess = nil
		if p.list = append(p.list, c); len(p.list) > p.limit {
			excess = p.list[0]
			p.list = slices.Delete(p.list, 0, 1)
		}
		if c.expiry == nil {
			c.expiry = time.AfterFunc(timeout, func() { p.expire(c) }) // it would stay in CLOSE_WAIT
		} else {
			c.expiry.Reset(timeout)
		}
	}
	p.mu.Unlock()
	if excess != nil {
		_ = excess.Close()
	}
}

// expire closes a connection if it is still idle.
func (p *idleConns) expire(c *conn) {
	if p.remove(func(idle *conn) bool { return idle == c }) != nil {
		_ = c.Close()
	}
}

// isQuiet reports whether an idle connection is open and received no bytes of a response.
// Another request would read them as its response.
func (c *conn) isQuiet() bool {
	if _, secured := c.Conn.(*tls.Conn); secured {
		// crypto/tls may hold bytes that it read. It can continue after this error.
		var one [1]byte
		_ = c.SetReadDeadline(time.Unix(0, 0)) // nothing is read from the socket
		if n, err := c.Read(one[:]); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return errors.Is(c.control(func(fd int) error {
		var one [1]byte
		_, _, err := unix.Recvfrom(fd, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err
	}), unix.EAGAIN)
}

// control returns the result of f with the descriptor.
func (c *conn) control(f func(fd int) error) error {
	socket, ok := c.socket.Conn.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	return sockopt.Control(raw, f)
}

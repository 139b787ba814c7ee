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

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	// maxIdle bounds the idle connections.
	maxIdle = 64
	// IdleTimeout is how long an idle connection is kept. OpenShift's router closes
	// it after 10 s (timeout http-request).
	IdleTimeout = 5 * time.Second
)

// idleConns holds the connections that wait for the next request. The zero value is ready.
type idleConns struct {
	mu     sync.Mutex
	list   []*conn // the longest idle first
	closed bool    // keep no more
}

// take returns the last used connection of the route, with the same server name, that can
// take a request, or nil.
func (p *idleConns) take(r *upstreamRoute, serverName string) *conn {
	for {
		c := p.remove(func(c *conn) bool { return c.route == r && c.serverName == serverName })
		if c == nil || c.isQuiet() {
			return c
		}
		c.abort()
	}
}

// remove removes the last used connection that matches, or returns nil.
func (p *idleConns) remove(matches func(*conn) bool) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range slices.Backward(p.list) {
		if matches(c) {
			c.expiry.Stop()
			p.list = slices.Delete(p.list, i, i+1)
			return c
		}
	}
	return nil
}

// put keeps a connection after a complete response, for the given time. The longest idle
// one is closed when there is no room.
func (p *idleConns) put(c *conn, timeout time.Duration) {
	if excess := p.add(c, timeout); excess != nil {
		_ = excess.Close()
	}
}

// add returns the connection that is not kept, or nil.
func (p *idleConns) add(c *conn, timeout time.Duration) (excess *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.route.proxyProtocol != ingress.ProxyProtocolOff {
		return c
	}
	if len(p.list) == maxIdle {
		excess = p.list[0]
		excess.expiry.Stop()
		p.list = slices.Delete(p.list, 0, 1)
	}
	// Without it, the connection would stay in CLOSE_WAIT until the next challenge.
	c.expiry = time.AfterFunc(timeout, func() {
		if expired := p.remove(func(other *conn) bool { return other == c }); expired != nil {
			_ = expired.Close()
		}
	})
	p.list = append(p.list, c)
	return excess
}

// close closes the connections, and those that are put later.
func (p *idleConns) close() {
	p.mu.Lock()
	list := p.list
	p.list, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range list {
		c.expiry.Stop()
		_ = c.Close()
	}
}

// isQuiet reports whether neither the end nor bytes of a response have arrived on an idle
// connection. Another request would read them as its response.
func (c *conn) isQuiet() bool {
	if _, secured := c.Conn.(*tls.Conn); secured {
		// crypto/tls may hold bytes that it has read. It reads no others after the
		// deadline, and can continue with a later one.
		var one [1]byte
		_ = c.SetReadDeadline(time.Unix(1, 0))
		if n, err := c.Read(one[:]); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	socket, is := c.socket.Conn.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
	})
	return quiet && err == nil
}

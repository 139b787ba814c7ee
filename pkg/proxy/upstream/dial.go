// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// upstreamRoute is how an ingress address is reached. It is comparable: an idle
// connection takes only requests of the same route.
type upstreamRoute struct {
	addr          netip.AddrPort        // of the ingress
	verifier      *verifier             // of the router's certificate; nil: no TLS
	serverName    string                // SNI
	proxyProtocol ingress.ProxyProtocol // header of each connection, for one client; such a connection is not reused
	proxy         *proxyHop             // nil: a direct route
}

// conn is an open connection.
type conn struct {
	net.Conn // with the layers of the route

	socket    *socket
	route     upstreamRoute
	idleSince time.Time // when it became idle
}

// abort closes the connection at once. Close sends close_notify first.
func (c *conn) abort() { _ = c.socket.Close() }

// socket is the lowest layer of a connection.
type socket struct {
	*net.TCPConn

	received bool // the peer has sent something
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.TCPConn.Read(p)
	s.received = s.received || n > 0
	return n, err
}

// isQuiet reports whether neither bytes nor the end have arrived.
func (s *socket) isQuiet() bool {
	raw, err := s.SyscallConn()
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

// dialTCP opens a TCP connection to the ingress or to a proxy. TCP keep-alive is
// off because the connection is short.
//
// The dialer sets no local address, not even an empty one. [net.Dialer.DialTCP]
// would bind the socket without the peer address, and the port would be taken
// for all destinations.
func dialTCP(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: sockopt.BufferSizes(SocketBuffer)}
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil, errors.Join(fmt.Errorf("cannot connect to %v: the connection is a %T", addr, conn), conn.Close())
	}
	return tcp, nil
}

// openConnection opens a connection with all layers of the route.
func (c *Client) openConnection(a *attempt) (*conn, *Error) {
	opened, failure := c.connectRoute(a)
	if failure != nil {
		if c.ctx.Err() != nil {
			failure = &Error{Cause: Stopped, Addr: a.route.addr, ClientStatus: 502, Err: failure.Err}
		}
		return nil, failure
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		opened.abort()
		return nil, &Error{Cause: Stopped, Addr: a.route.addr, ClientStatus: 502, Err: net.ErrClosed}
	}
	c.busy[opened] = struct{}{}
	return opened, nil
}

func (c *Client) connectRoute(a *attempt) (*conn, *Error) {
	timeout := min(a.connectTimeout, time.Until(a.firstByteBy))
	if timeout <= 0 {
		return nil, ExchangeError(a.route.addr, errTimeUsedUp, false)
	}
	tcp, failure := c.dialRoute(a.route, timeout)
	if failure != nil {
		return nil, failure
	}
	stop := context.AfterFunc(c.ctx, func() { _ = tcp.Close() }) // Close interrupts a step in progress
	defer stop()
	bottom := &socket{TCPConn: tcp}
	top, failure := c.openLayers(bottom, a)
	if failure != nil {
		_ = tcp.Close()
		return nil, a.route.attributeToProxy(failure)
	}
	return &conn{Conn: top, socket: bottom, route: a.route}, nil
}

// openLayers adds the layers of the route to a connection. After an error the caller
// closes bottom.
func (c *Client) openLayers(bottom *socket, a *attempt) (net.Conn, *Error) {
	if a.route.proxy != nil {
		return c.openThroughProxy(bottom, a)
	}
	return c.openTop(bottom, bottom, a)
}

// openTop sends the PROXY header, if one is configured, and opens TLS, if the route has
// it, on top of beneath, whose lowest layer is bottom.
func (c *Client) openTop(beneath net.Conn, bottom *socket, a *attempt) (net.Conn, *Error) {
	if failure := a.writeProxyHeader(beneath); failure != nil || a.route.verifier == nil {
		return beneath, failure
	}
	top, failure := c.handshake(beneath, bottom, a, a.route.verifier, a.route.serverName)
	if failure != nil {
		return nil, a.route.withProxyProtocol(failure)
	}
	return top, nil
}

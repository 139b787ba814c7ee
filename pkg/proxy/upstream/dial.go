// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// maxHandshakes bounds the concurrent handshakes with one address. The memory of a handshake
// becomes garbage, except for its connection, and thousands at once would use much memory. The
// bound is more than two processors can compute, and more than a router accepts in a few
// milliseconds. It applies to each address, so that a silent address does not block the others.
const maxHandshakes = 32

// errTimeUsedUp means that the time was used up before a connection attempt.
var errTimeUsedUp = fmt.Errorf("%w: %w", cause.Details{Reason: cause.DeadlinePassed}, os.ErrDeadlineExceeded)

// conn is an open connection.
type conn struct {
	net.Conn // with the layers of the route

	socket     *socket
	route      *upstreamRoute
	host       string      // that its requests are for, and the server name of TLS with the router
	kept       bool        // it is idle, or was
	expiry     *time.Timer // expire, while it is idle
	unregister func() bool // from the context that closes it
}

// Close closes the connection in order: over TLS, it sends close_notify first.
func (c *conn) Close() error {
	c.unregister()
	return c.Conn.Close()
}

// abort closes the connection at once.
func (c *conn) abort() {
	c.unregister()
	_ = c.socket.Close()
}

// closeWith makes the end of ctx close the connection, instead of the end of another context.
// It returns false if that ended.
func (c *conn) closeWith(ctx context.Context) bool {
	open := c.unregister()
	c.unregister = context.AfterFunc(ctx, func() { _ = c.socket.Close() })
	return open
}

// socket is the lowest layer of a connection.
type socket struct {
	net.Conn

	received bool // the peer sent something
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.received = s.received || n > 0
	return n, err
}

// dialTCP opens a TCP connection to the ingress or to a proxy. TCP keep-alive is
// off because the connection is short.
//
// The dialer sets no local address, not even an empty one. [net.Dialer.DialTCP]
// would bind the socket without the peer address, and the port would be taken
// for all destinations.
func dialTCP(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: sockopt.BufferSizes(SocketBuffer)}
	return dialer.DialContext(ctx, "tcp", addr.String())
}

type dialFunc func(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (net.Conn, error)

// DialFirst connects to the first address that accepts, until deadline. Each address gets an
// equal share of the remaining time. It returns the address that it tried last.
func DialFirst(ctx context.Context, addrs []netip.AddrPort, deadline time.Time) (net.Conn, netip.AddrPort, error) {
	return dialFunc(dialTCP).first(ctx, addrs, deadline)
}

func (f dialFunc) first(
	ctx context.Context, addrs []netip.AddrPort, deadline time.Time,
) (net.Conn, netip.AddrPort, error) {
	var last netip.AddrPort
	err := error(cause.Details{Reason: cause.NoAddress})
	for i, addr := range addrs {
		last = addr
		var tcp net.Conn
		if tcp, err = f(ctx, addr, max(1, time.Until(deadline)/time.Duration(len(addrs)-i))); err == nil {
			return tcp, addr, nil
		}
	}
	return nil, last, err
}

// connect opens a connection with all layers of the route. The end of ctx closes it.
func (c *Client) connect(ctx context.Context, a *attempt) (*conn, *Error) {
	opened, failure := c.reach(ctx, a)
	if failure == nil {
		if failure = opened.prepare(ctx, a); failure != nil {
			opened.abort()
		}
	}
	switch {
	case failure == nil:
		return opened, nil
	case ctx.Err() != nil:
		return nil, &Error{Cause: findings.ExchangeStopped, Addr: a.route.addr, ClientStatus: 502, Err: failure.Err}
	default:
		return nil, a.route.attributeToProxy(failure)
	}
}

// reach opens a connection to the ingress. If an egress proxy is on the route, it is a
// tunnel through the proxy, or in plain HTTP the connection to the proxy. The end of ctx
// closes the connection.
func (c *Client) reach(ctx context.Context, a *attempt) (*conn, *Error) {
	timeout := min(a.connectTimeout, time.Until(a.firstByteBy))
	if timeout <= 0 {
		return nil, ExchangeError(a.route.addr, errTimeUsedUp, false)
	}
	tcp, failure := c.dial(ctx, a.route, timeout)
	if failure != nil {
		return nil, failure
	}
	if lingers, ok := tcp.(*net.TCPConn); ok {
		_ = lingers.SetLinger(0) // see loop.Connect
	}
	bottom := &socket{Conn: tcp}
	unregister := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	opened := &conn{Conn: bottom, socket: bottom, route: a.route, unregister: unregister}
	if failure = opened.passProxy(ctx, a); failure != nil {
		opened.abort()
		return nil, failure
	}
	return opened, nil
}

// dial connects to the ingress, or to the first address of the egress proxy that accepts. No
// request and no response can change the destination.
func (c *Client) dial(ctx context.Context, r *upstreamRoute, timeout time.Duration) (net.Conn, *Error) {
	addrs := []netip.AddrPort{r.addr}
	if r.proxy != nil {
		addrs = r.proxy.Addrs
	}
	tcp, _, err := c.dialFunc.first(ctx, addrs, time.Now().Add(timeout))
	switch {
	case err == nil:
		return tcp, nil
	case r.proxy != nil:
		return nil, r.egressError(findings.EgressUnreachable, err)
	default:
		return nil, DialError(r.addr, err)
	}
}

// prepare sends the PROXY header and opens TLS, as the route requires.
func (c *conn) prepare(ctx context.Context, a *attempt) *Error {
	c.host = a.request.Host
	hasHeader := a.route.proxyProtocol != ingress.ProxyProtocolOff
	if hasHeader {
		_ = c.SetDeadline(a.firstByteBy) // on a closed connection, Write fails
		header, err := proxyHeader(a.route.proxyProtocol, a.request.Client, a.request.VIP)
		if err == nil {
			_, err = c.Write(header)
		}
		if err != nil {
			return ExchangeError(a.route.addr, err, false)
		}
	}
	if a.route.verifier == nil {
		return nil
	}
	failure := c.handshake(ctx, a, a.route.verifier, c.host)
	if failure != nil && failure.Cause == findings.IngressTLSHandshake && hasHeader {
		// A router that does not expect the header reads it as invalid TLS.
		details := Explain(failure.Err)
		details.ProxyHeader = int(a.route.proxyProtocol)
		failure.Err = details
	}
	return failure
}

// handshake adds TLS with name. It waits until fewer than maxHandshakes are in progress.
func (c *conn) handshake(ctx context.Context, a *attempt, v *verifier, name string) *Error {
	wait := time.NewTimer(time.Until(a.firstByteBy))
	defer wait.Stop()
	select {
	case a.route.handshakes <- struct{}{}:
		defer func() { <-a.route.handshakes }()
	case <-wait.C:
		return ExchangeError(a.route.addr, errTimeUsedUp, false)
	case <-ctx.Done():
		return ExchangeError(a.route.addr, net.ErrClosed, false)
	}
	_ = c.SetDeadline(a.stepDeadline()) // on a closed connection, Handshake fails
	// The end of ctx closes the socket; a context would cost another goroutine in
	// crypto/tls.
	secured := tls.Client(c.Conn, v.config(name))
	if err := secured.Handshake(); err != nil { //nolint:noctx // see above
		return handshakeError(a.route.addr, err, c.socket.received)
	}
	c.Conn = secured
	return nil
}

// stepDeadline returns the deadline of one step of opening a connection.
func (a *attempt) stepDeadline() time.Time {
	if deadline := time.Now().Add(a.connectTimeout); deadline.Before(a.firstByteBy) {
		return deadline
	}
	return a.firstByteBy
}

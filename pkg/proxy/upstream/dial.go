// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"

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

// stream is an open connection, with or without TLS.
type stream interface {
	io.Reader
	// RoundTrip sends a request and reads the beginning of the response; at the end
	// of the connection it returns [io.EOF]. If a used stream cannot take another
	// request, it sends nothing and returns errStaleConnection.
	RoundTrip(request, response []byte) (int, error)
	// SetDeadline bounds all blocking calls.
	SetDeadline(t time.Time) error
	// Close does not block. It may be called at any time.
	Close() error
}

type conn struct {
	stream
	route     upstreamRoute
	idleSince time.Time // when it became idle
}

// openConnection opens a connection on the stack of another goroutine. Opening
// needs more stack than waiting for a response, and a stack shrinks only with a
// garbage collection. Thousands of waiting goroutines would keep the larger stacks.
func (c *Client) openConnection(a *attempt) (opened *conn, failure *Error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		opened, failure = c.connectRoute(a)
	}()
	<-done // each step is bounded
	if failure != nil {
		if c.ctx.Err() != nil {
			failure = &Error{Cause: Stopped, Addr: a.route.addr, ClientStatus: 502, Err: failure.Err}
		}
		return nil, failure
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = opened.Close()
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
	s, failure := c.openStream(tcp, a)
	if failure != nil {
		_ = tcp.Close()
		return nil, a.route.attributeToProxy(failure)
	}
	return &conn{stream: s, route: a.route}, nil
}

// openStream adds the layers of the route to a TCP connection. After an error the
// caller closes tcp.
func (c *Client) openStream(tcp *net.TCPConn, a *attempt) (stream, *Error) {
	if a.route.verifier == nil && a.route.proxy == nil {
		return a.openPlain(tcp)
	}
	// Close interrupts a step in progress.
	stop := context.AfterFunc(c.ctx, func() { _ = tcp.Close() })
	defer stop()
	bottom, err := newTLSSocket(tcp)
	if err != nil {
		return nil, DialError(a.route.addr, err)
	}
	if a.route.proxy != nil {
		return c.openThroughProxy(bottom, a)
	}
	return c.openTLS(bottom, bottom, a)
}

// openPlain sends the PROXY header, if one is configured, and returns a stream
// without TLS.
func (a *attempt) openPlain(tcp *net.TCPConn) (stream, *Error) {
	if failure := a.writeProxyHeader(tcp); failure != nil {
		return nil, failure
	}
	s, err := newPlainStream(tcp)
	if err != nil {
		return nil, DialError(a.route.addr, err)
	}
	return s, nil
}

// openTLS sends the PROXY header, if one is configured, and opens TLS on top of
// beneath, whose lowest layer is bottom.
func (c *Client) openTLS(beneath net.Conn, bottom *tlsSocket, a *attempt) (stream, *Error) {
	if failure := a.writeProxyHeader(beneath); failure != nil {
		return nil, failure
	}
	s, failure := c.handshake(beneath, bottom, a, a.route.verifier, a.route.serverName)
	if failure != nil {
		return nil, a.route.withProxyProtocol(failure)
	}
	return s, nil
}

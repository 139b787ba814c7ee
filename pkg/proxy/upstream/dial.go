// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"
)

// routeTo is how an ingress address is reached. It is comparable: a kept connection
// takes requests that go the same way, and no others.
type upstreamRoute struct {
	addr          netip.AddrPort // of the ingress
	verifier      *verifier      // of the router's certificate; nil without TLS
	serverName    string         // that is asked for by TLS
	proxyProtocol ProxyProtocol  // what the connection begins with: it is one client's, and not kept
	proxy         *proxyHop      // the egress proxy through which; nil: directly
}

// stream is an opened connection, whatever lies beneath it.
type stream interface {
	io.Reader
	// Ask sends a request, and reads what the answer begins with; at the end of the
	// connection it returns [io.EOF]. A stream that was asked before, and cannot
	// take another request, returns errStaleConnection: nothing was sent.
	RoundTrip(request, answer []byte) (int, error)
	// SetDeadline bounds all that waits.
	SetDeadline(t time.Time) error
	// Close waits for nothing. It may be called at any time.
	Close() error
}

// conn is one connection to an ingress address.
type conn struct {
	stream
	route     upstreamRoute
	idleSince time.Time // when it became idle
}

// openConnection opens a connection on another stack. That takes more of it than waiting
// for an answer does, and a stack that has grown shrinks only with a garbage
// collection: thousands that wait would hold it all the while.
func (c *Client) openConnection(a attempt) (opened *conn, failure *Error) {
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

// connectRoute goes the steps of a way.
func (c *Client) connectRoute(a attempt) (*conn, *Error) {
	timeout := min(a.connectTimeout, time.Until(a.firstByteBy))
	if timeout <= 0 {
		return nil, exchangeError(a.route.addr, errTimeUsedUp, false)
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

// openStream makes of a TCP connection what the way asks for on top of it. The caller
// closes tcp when that fails.
func (c *Client) openStream(tcp *net.TCPConn, a attempt) (stream, *Error) {
	if a.route.verifier == nil && a.route.proxy == nil {
		return a.openPlain(tcp)
	}
	// Close ends what is under way.
	stop := context.AfterFunc(c.ctx, func() { _ = tcp.Close() })
	defer stop()
	bottom, err := newTLSSocket(tcp)
	if err != nil {
		return nil, dialError(a.route.addr, err)
	}
	if a.route.proxy != nil {
		return c.openThroughProxy(bottom, a)
	}
	return c.openTLS(bottom, bottom, a)
}

// plainAddrs tells the router whose connection it is, if it is to know, and no more.
func (a attempt) openPlain(tcp *net.TCPConn) (stream, *Error) {
	if failure := a.writeProxyHeader(tcp); failure != nil {
		return nil, failure
	}
	s, err := newPlainStream(tcp)
	if err != nil {
		return nil, dialError(a.route.addr, err)
	}
	return s, nil
}

// openTLS does so before TLS, on top of beneath, which has bottom at its bottom.
func (c *Client) openTLS(beneath net.Conn, bottom *tlsSocket, a attempt) (stream, *Error) {
	if failure := a.writeProxyHeader(beneath); failure != nil {
		return nil, failure
	}
	s, failure := c.handshake(beneath, bottom, a, a.route.verifier, a.route.serverName)
	if failure != nil {
		return nil, a.route.withProxyProtocol(failure)
	}
	return s, nil
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"
)

// way is how an ingress address is reached. It is comparable: a kept connection
// takes requests that go the same way, and no others.
type way struct {
	addr     netip.AddrPort // of the ingress
	verifier *verifier      // of the router's certificate; nil without TLS
	name     string         // that is asked for by TLS
	header   ProxyProtocol  // what the connection begins with: it is one client's, and not kept
	via      *hop           // the egress proxy through which; nil: directly
}

// stream is an opened connection, whatever lies beneath it.
type stream interface {
	io.Reader
	// Ask sends a request, and reads what the answer begins with; at the end of the
	// connection it returns [io.EOF]. A stream that was asked before, and cannot
	// take another request, returns errStale: nothing was sent.
	Ask(request, answer []byte) (int, error)
	// SetDeadline bounds all that waits.
	SetDeadline(t time.Time) error
	// Close waits for nothing. It may be called at any time.
	Close() error
}

// conn is one connection to an ingress address.
type conn struct {
	stream
	way   way
	since time.Time // when it became idle
}

// open opens a connection on another stack. That takes more of it than waiting
// for an answer does, and a stack that has grown shrinks only with a garbage
// collection: thousands that wait would hold it all the while.
func (c *Client) open(a attempt) (opened *conn, failure *Error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		opened, failure = c.reach(a)
	}()
	<-done // each step is bounded
	if failure != nil {
		if c.dialing.Err() != nil {
			failure = &Error{Cause: Stopped, Addr: a.way.addr, Status: 502, Err: failure.Err}
		}
		return nil, failure
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = opened.Close()
		return nil, &Error{Cause: Stopped, Addr: a.way.addr, Status: 502, Err: net.ErrClosed}
	}
	c.busy[opened] = struct{}{}
	return opened, nil
}

// reach goes the steps of a way.
func (c *Client) reach(a attempt) (*conn, *Error) {
	timeout := min(a.connect, time.Until(a.first))
	if timeout <= 0 {
		return nil, talkError(a.way.addr, errNoTime, false)
	}
	tcp, failure := c.approach(a.way, timeout)
	if failure != nil {
		return nil, failure
	}
	s, failure := c.climb(tcp, a)
	if failure != nil {
		_ = tcp.Close()
		return nil, a.way.blame(failure)
	}
	return &conn{stream: s, way: a.way}, nil
}

// climb makes of a TCP connection what the way asks for on top of it. The caller
// closes tcp when that fails.
func (c *Client) climb(tcp *net.TCPConn, a attempt) (stream, *Error) {
	if a.way.verifier == nil && a.way.via == nil {
		return a.plain(tcp)
	}
	// Close ends what is under way.
	stop := context.AfterFunc(c.dialing, func() { _ = tcp.Close() })
	defer stop()
	bottom, err := newSocket(tcp)
	if err != nil {
		return nil, dialError(a.way.addr, err)
	}
	if a.way.via != nil {
		return c.climbThrough(bottom, a)
	}
	return c.climbSecure(bottom, bottom, a)
}

// plain tells the router whose connection it is, if it is to know, and no more.
func (a attempt) plain(tcp *net.TCPConn) (stream, *Error) {
	if failure := a.begin(tcp); failure != nil {
		return nil, failure
	}
	s, err := newPlain(tcp)
	if err != nil {
		return nil, dialError(a.way.addr, err)
	}
	return s, nil
}

// climbSecure does so before TLS, on top of beneath, which has bottom at its bottom.
func (c *Client) climbSecure(beneath net.Conn, bottom *socket, a attempt) (stream, *Error) {
	if failure := a.begin(beneath); failure != nil {
		return nil, failure
	}
	s, failure := c.handshake(beneath, bottom, a, a.way.verifier, a.way.name)
	if failure != nil {
		return nil, a.way.afterHeader(failure)
	}
	return s, nil
}

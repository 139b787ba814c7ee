// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// maxHandshakes bounds the concurrent handshakes with one address. The memory of a
// handshake beyond that of its connection becomes garbage, and thousands at once
// would be a peak of it. The bound is more than two processors can compute, and
// more than a router accepts in a few milliseconds. It applies to each address, so
// that a silent address does not block the others.
const maxHandshakes = 32

// isQuiet reports whether neither the end nor bytes of a response have arrived on an idle
// connection. Another request would read them as its response.
func (c *conn) isQuiet() bool {
	if _, secured := c.Conn.(*tls.Conn); secured {
		// crypto/tls may hold bytes that it has read. It reads no others after the
		// deadline, and can continue with a later one.
		var one [1]byte
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return false
		}
		if n, err := c.Read(one[:]); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return c.socket.isQuiet()
}

// handshake opens TLS with name on top of beneath, whose lowest layer is bottom.
func (c *Client) handshake(beneath net.Conn, bottom *socket, a *attempt, v *verifier, name string) (net.Conn, *Error) {
	leave, err := c.acquireHandshake(a)
	if err != nil {
		return nil, ExchangeError(a.route.addr, err, false)
	}
	defer leave()
	if err := bottom.SetDeadline(earlier(time.Now().Add(a.connectTimeout), a.firstByteBy)); err != nil {
		return nil, ExchangeError(a.route.addr, err, false)
	}
	// Close ends the handshake; a context would cost another goroutine in
	// crypto/tls.
	secured := tls.Client(beneath, v.config(name))
	if err := secured.Handshake(); err != nil { //nolint:noctx // see above
		return nil, handshakeError(a.route.addr, err, bottom.received)
	}
	return secured, nil
}

// acquireHandshake waits until fewer than maxHandshakes are in progress.
func (c *Client) acquireHandshake(a *attempt) (leave func(), err error) {
	leave = func() { <-a.handshakes }
	select {
	case a.handshakes <- struct{}{}:
		return leave, nil
	default:
	}
	timer := time.NewTimer(time.Until(a.firstByteBy))
	defer timer.Stop()
	select {
	case a.handshakes <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, errTimeUsedUp
	case <-c.ctx.Done():
		return nil, net.ErrClosed
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nonblock"
)

// maxHandshakes bounds the concurrent handshakes with one address. The memory of a
// handshake beyond that of its connection becomes garbage, and thousands at once
// would be a peak of it. The bound is more than two processors can compute, and
// more than a router accepts in a few milliseconds. It applies to each address, so
// that a silent address does not block the others.
const maxHandshakes = 32

// maxBuffered bounds an encrypted request that is sent together with the read of
// its response. The request of a CA is shorter.
const maxBuffered = 1 << 10

// tlsSocket is the TCP connection below TLS.
type tlsSocket struct {
	*net.TCPConn
	raw         syscall.RawConn
	received    bool   // the peer has sent something
	nonblocking bool   // only bytes that have arrived are read
	buffering   bool   // writes go to buffered, for flushAndWait
	buffered    []byte // bytes to send
	closing     atomic.Bool

	readStep, writeStep func(fd uintptr) bool // created once, as in plainStream
	in                  []byte                // of readStep
	sent                bool                  // by writeStep
	n                   int                   // of both steps
	err                 error
}

func newTLSSocket(tcp *net.TCPConn) (*tlsSocket, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &tlsSocket{TCPConn: tcp, raw: raw}
	s.readStep = func(fd uintptr) bool {
		s.n, s.err = nonblock.Read(int(fd), s.in)
		return true
	}
	s.writeStep = func(fd uintptr) bool {
		if s.sent {
			return true // something has arrived
		}
		s.sent = true
		s.n, s.err = nonblock.Write(int(fd), s.buffered)
		return s.n < len(s.buffered)
	}
	return s, nil
}

// flushAndWait sends the buffered bytes inside of a read, as plainStream.RoundTrip
// does, and waits until there is something to read. crypto/tls does the read.
func (s *tlsSocket) flushAndWait() error {
	s.sent = false
	err := s.raw.Read(s.writeStep)
	held := s.buffered
	s.buffered = s.buffered[:0]
	switch {
	case err != nil:
		return err
	case s.err != nil && !errors.Is(s.err, syscall.EAGAIN):
		return os.NewSyscallError("write", s.err)
	case max(s.n, 0) < len(held): // larger than the socket's buffer
		_, err = s.TCPConn.Write(held[max(s.n, 0):])
	}
	return err
}

// Read implements net.Conn.
func (s *tlsSocket) Read(p []byte) (n int, err error) {
	if s.nonblocking {
		n, err = s.readNonblocking(p)
	} else {
		n, err = s.TCPConn.Read(p)
	}
	s.received = s.received || n > 0
	return n, err
}

// readNonblocking reports missing bytes as an exceeded deadline, after which
// crypto/tls can continue.
func (s *tlsSocket) readNonblocking(p []byte) (int, error) {
	s.in = p
	err := s.raw.Read(s.readStep)
	s.in = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(s.err, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case s.err != nil:
		return 0, os.NewSyscallError("read", s.err)
	case s.n == 0 && len(p) > 0:
		return 0, io.EOF
	default:
		return s.n, nil
	}
}

// Write implements net.Conn. On a connection that is being closed it writes only
// what the socket's buffer takes.
func (s *tlsSocket) Write(p []byte) (n int, err error) {
	switch {
	case s.closing.Load():
		failed := s.raw.Write(func(fd uintptr) bool {
			n, err = nonblock.Write(int(fd), p)
			return true
		})
		return n, errors.Join(failed, err)
	case s.buffering && len(s.buffered)+len(p) <= maxBuffered:
		s.buffered = append(s.buffered, p...)
		return len(p), nil
	case len(s.buffered) > 0:
		if _, err := s.TCPConn.Write(s.buffered); err != nil {
			return 0, err
		}
		s.buffered = s.buffered[:0]
	}
	return s.TCPConn.Write(p)
}

type tlsStream struct {
	*tls.Conn
	socket *tlsSocket
	used   bool // a request was sent before
}

// RoundTrip implements stream.
func (s *tlsStream) RoundTrip(request, response []byte) (int, error) {
	if s.used && !s.nothingReceived() {
		return 0, errStaleConnection
	}
	s.used = true
	s.socket.buffering = true
	_, err := s.Write(request)
	s.socket.buffering = false
	if err == nil {
		err = s.socket.flushAndWait()
	}
	if err != nil {
		return 0, err
	}
	return s.Read(response)
}

// nothingReceived reports that neither the end nor bytes of a response have arrived.
// Messages of TLS itself may have, for example the session tickets after a
// handshake. They are read here, without a wait for the rest of a message.
func (s *tlsStream) nothingReceived() bool {
	s.socket.nonblocking = true
	defer func() { s.socket.nonblocking = false }()
	var one [1]byte
	n, err := s.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close implements stream. It sends close_notify if the socket's buffer takes it.
func (s *tlsStream) Close() error {
	s.socket.closing.Store(true)
	return s.Conn.Close()
}

// handshake opens TLS with name on top of beneath, whose lowest layer is s.
func (c *Client) handshake(beneath net.Conn, s *tlsSocket, a *attempt, v *verifier, name string) (*tlsStream, *Error) {
	leave, err := c.acquireHandshake(a)
	if err != nil {
		return nil, ExchangeError(a.route.addr, err, false)
	}
	defer leave()
	if err := s.SetDeadline(earlier(time.Now().Add(a.connectTimeout), a.firstByteBy)); err != nil {
		return nil, ExchangeError(a.route.addr, err, false)
	}
	// Close ends the handshake; a context would cost another goroutine in
	// crypto/tls.
	secured := tls.Client(beneath, v.config(name))
	if err := secured.Handshake(); err != nil { //nolint:noctx // see above
		return nil, handshakeError(a.route.addr, err, s.received)
	}
	return &tlsStream{Conn: secured, socket: s}, nil
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

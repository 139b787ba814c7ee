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

// maxHandshakes bounds the handshakes with one address that run at once: what they
// take besides what a connection keeps is garbage when they end, and thousands at
// once would be a peak of it. So many are more than two processors can do, and than a
// router takes in a few milliseconds. It is for each address, so that one that is
// silent keeps none from asking the next.
const maxHandshakes = 32

// maxBuffered bounds what a request may have, encrypted, to be held until its answer is
// read. That of a CA has less.
const maxBuffered = 1 << 10

// tlsSocket is a TCP connection beneath TLS.
type tlsSocket struct {
	*net.TCPConn
	raw         syscall.RawConn
	received    bool   // the other side has said something
	nonblocking bool   // only what has come is read
	buffering   bool   // what is written is held for ask
	buffered    []byte // that
	closing     atomic.Bool

	readStep, writeStep func(fd uintptr) bool // made once, as plain's
	in                  []byte                // for look
	sent                bool                  // by send
	n                   int                   // of either
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
			return true // something has come
		}
		s.sent = true
		s.n, s.err = nonblock.Write(int(fd), s.buffered)
		return s.n < len(s.buffered)
	}
	return s, nil
}

// flushAndWait sends what is held, within a read as plain's Ask does, and waits until there is
// something to read, which is for crypto/tls to do.
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

// readNonblocking reports what has not come as a deadline: crypto/tls goes on after that.
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

// Write implements net.Conn. A connection that is being closed takes what goes into
// its buffer.
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

// tls is a stream of TLS.
type tlsStream struct {
	*tls.Conn
	socket *tlsSocket
	used   bool // it was asked before
}

// RoundTrip implements stream.
func (s *tlsStream) RoundTrip(request, answer []byte) (int, error) {
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
	return s.Read(answer)
}

// nothingReceived reports whether nothing has come that could be taken for an answer, nor the
// end. Messages of TLS itself may have, such as the tickets for new sessions that
// follow a handshake: they are read here, and nobody waits for the rest of one.
func (s *tlsStream) nothingReceived() bool {
	s.socket.nonblocking = true
	defer func() { s.socket.nonblocking = false }()
	var one [1]byte
	n, err := s.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close implements stream. It says goodbye if that goes into the socket's buffer.
func (s *tlsStream) Close() error {
	s.socket.closing.Store(true)
	return s.Conn.Close()
}

// handshake opens TLS with name on top of beneath, which has s at its bottom.
func (c *Client) handshake(beneath net.Conn, s *tlsSocket, a attempt, v *verifier, name string) (*tlsStream, *Error) {
	leave, err := c.acquireHandshake(a)
	if err != nil {
		return nil, exchangeError(a.route.addr, err, false)
	}
	defer leave()
	if err := s.SetDeadline(earlier(time.Now().Add(a.connectTimeout), a.firstByteBy)); err != nil {
		return nil, exchangeError(a.route.addr, err, false)
	}
	// Close ends it; a context of crypto/tls would cost a goroutine more.
	secured := tls.Client(beneath, v.config(name))
	if err := secured.Handshake(); err != nil { //nolint:noctx // see above
		return nil, handshakeError(a.route.addr, err, s.received)
	}
	return &tlsStream{Conn: secured, socket: s}, nil
}

// acquireHandshake waits for room among the handshakes that run at once.
func (c *Client) acquireHandshake(a attempt) (leave func(), err error) {
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

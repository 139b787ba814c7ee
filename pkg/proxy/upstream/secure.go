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

// maxHeld bounds what a request may have, encrypted, to be held until its answer is
// read. That of a CA has less.
const maxHeld = 1 << 10

// socket is a TCP connection beneath TLS.
type socket struct {
	*net.TCPConn
	raw     syscall.RawConn
	heard   bool   // the other side has said something
	present bool   // only what has come is read
	holding bool   // what is written is held for ask
	held    []byte // that
	closing atomic.Bool

	look, send func(fd uintptr) bool // made once, as plain's
	in         []byte                // for look
	sent       bool                  // by send
	n          int                   // of either
	err        error
}

func newSocket(tcp *net.TCPConn) (*socket, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{TCPConn: tcp, raw: raw}
	s.look = func(fd uintptr) bool {
		s.n, s.err = nonblock.Read(int(fd), s.in)
		return true
	}
	s.send = func(fd uintptr) bool {
		if s.sent {
			return true // something has come
		}
		s.sent = true
		s.n, s.err = nonblock.Write(int(fd), s.held)
		return s.n < len(s.held)
	}
	return s, nil
}

// ask sends what is held, within a read as plain's Ask does, and waits until there is
// something to read, which is for crypto/tls to do.
func (s *socket) ask() error {
	s.sent = false
	err := s.raw.Read(s.send)
	held := s.held
	s.held = s.held[:0]
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
func (s *socket) Read(p []byte) (n int, err error) {
	if s.present {
		n, err = s.readPresent(p)
	} else {
		n, err = s.TCPConn.Read(p)
	}
	s.heard = s.heard || n > 0
	return n, err
}

// readPresent reports what has not come as a deadline: crypto/tls goes on after that.
func (s *socket) readPresent(p []byte) (int, error) {
	s.in = p
	err := s.raw.Read(s.look)
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
func (s *socket) Write(p []byte) (n int, err error) {
	switch {
	case s.closing.Load():
		failed := s.raw.Write(func(fd uintptr) bool {
			n, err = nonblock.Write(int(fd), p)
			return true
		})
		return n, errors.Join(failed, err)
	case s.holding && len(s.held)+len(p) <= maxHeld:
		s.held = append(s.held, p...)
		return len(p), nil
	case len(s.held) > 0:
		if _, err := s.TCPConn.Write(s.held); err != nil {
			return 0, err
		}
		s.held = s.held[:0]
	}
	return s.TCPConn.Write(p)
}

// secure is a stream of TLS.
type secure struct {
	*tls.Conn
	socket *socket
	used   bool // it was asked before
}

// Ask implements stream.
func (s *secure) Ask(request, answer []byte) (int, error) {
	if s.used && !s.quiet() {
		return 0, errStale
	}
	s.used = true
	s.socket.holding = true
	_, err := s.Write(request)
	s.socket.holding = false
	if err == nil {
		err = s.socket.ask()
	}
	if err != nil {
		return 0, err
	}
	return s.Read(answer)
}

// quiet reports whether nothing has come that could be taken for an answer, nor the
// end. Messages of TLS itself may have, such as the tickets for new sessions that
// follow a handshake: they are read here, and nobody waits for the rest of one.
func (s *secure) quiet() bool {
	s.socket.present = true
	defer func() { s.socket.present = false }()
	var one [1]byte
	n, err := s.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close implements stream. It says goodbye if that goes into the socket's buffer.
func (s *secure) Close() error {
	s.socket.closing.Store(true)
	return s.Conn.Close()
}

// handshake opens TLS with name on top of beneath, which has s at its bottom.
func (c *Client) handshake(beneath net.Conn, s *socket, a attempt, v *verifier, name string) (*secure, *Error) {
	leave, err := c.enter(a)
	if err != nil {
		return nil, talkError(a.way.addr, err, false)
	}
	defer leave()
	if err := s.SetDeadline(earlier(time.Now().Add(a.connect), a.first)); err != nil {
		return nil, talkError(a.way.addr, err, false)
	}
	// Close ends it; a context of crypto/tls would cost a goroutine more.
	secured := tls.Client(beneath, v.config(name))
	if err := secured.Handshake(); err != nil { //nolint:noctx // see above
		return nil, handshakeError(a.way.addr, err, s.heard)
	}
	return &secure{Conn: secured, socket: s}, nil
}

// enter waits for room among the handshakes that run at once.
func (c *Client) enter(a attempt) (leave func(), err error) {
	leave = func() { <-a.room }
	select {
	case a.room <- struct{}{}:
		return leave, nil
	default:
	}
	timer := time.NewTimer(time.Until(a.first))
	defer timer.Stop()
	select {
	case a.room <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, errNoTime
	case <-c.dialing.Done():
		return nil, net.ErrClosed
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

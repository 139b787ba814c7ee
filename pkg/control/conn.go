// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxMessage holds the longest list of hosts that a configuration file can
	// have, the certificates of the largest order, an [Egress] with those of the
	// host's file twice and an admin's (pkg/trust: 4 MiB and 1 MiB as PEM, which is
	// longer than what they are here).
	maxMessage = 12 << 20
	// maxReport is what a child may say, which reads what the network sends: more than
	// any News or answer.
	maxReport = 1 << 20
	// maxKept is what a Conn keeps for the next message.
	maxKept = 64 << 10
	// sendTimeout bounds the wait for a peer that does not read.
	sendTimeout = 2 * time.Second
	headerBytes = 4 // the length of what follows, big-endian
)

// Conn is one end of the socketpair. Send may be called from many goroutines,
// Receive and its kin from one.
type Conn struct {
	unix     *net.UnixConn
	most     uint32        // bytes of a message from the other end
	patience time.Duration // with a peer that does not read
	sending  sync.Mutex
	buf      []byte
}

// Pair makes both ends; far is for another process.
func Pair() (near *Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socketpair: %w", err)
	}
	mine, far := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	near, err = Take(mine)
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	near.most = maxReport
	return near, far, nil
}

// Take makes a Conn of the end that is for another process, which it closes.
func Take(f *os.File) (*Conn, error) {
	conn, err := net.FileConn(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, fmt.Errorf("take the control socket: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the control socket is a %T", conn), conn.Close())
	}
	return &Conn{unix: socket, most: maxMessage, patience: sendTimeout}, nil
}

// Close ends the connection; the peer receives io.EOF.
func (c *Conn) Close() error { return c.unix.Close() }

// ErrTooLarge is a message that is larger than a Conn carries. Nothing of it was
// sent.
var ErrTooLarge = errors.New("the message is too large")

// Send sends a message, such as an [Order] or a [Word], with fd unless that is
// negative. After another error than [ErrTooLarge] the connection is of no use.
func (c *Conn) Send(message any, fd int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("write a control message: %w", err)
	}
	if len(text) > maxMessage {
		return fmt.Errorf("write a control message: %w: it has %d bytes", ErrTooLarge, len(text))
	}
	framed := append(binary.BigEndian.AppendUint32(make([]byte, 0, headerBytes+len(text)), uint32(len(text))), text...) //nolint:gosec // bounded above
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.unix.SetWriteDeadline(time.Now().Add(c.patience))
	// The descriptor goes with the first byte (unix(7), SCM_RIGHTS).
	n, _, err := c.unix.WriteMsgUnix(framed, rights, nil)
	for err == nil && n < len(framed) {
		var more int
		more, err = c.unix.Write(framed[n:])
		n += more
	}
	if err != nil {
		return fmt.Errorf("send a control message: %w", err)
	}
	return nil
}

// ReceiveOrder waits for the next order. fd is the descriptor that came with
// it, or negative; it is the caller's.
func (c *Conn) ReceiveOrder() (o Order, fd int, err error) {
	fd, err = c.Receive(&o)
	return o, fd, err
}

// ReceiveWord waits for the next word. Words bring no descriptors.
func (c *Conn) ReceiveWord() (w Word, err error) {
	fd, err := c.Receive(&w)
	if fd >= 0 {
		_ = unix.Close(fd)
		err = errors.Join(err, fmt.Errorf("%w: a descriptor", errUnbelievable))
	}
	return w, err
}

// Receive waits for the next message. Its fields are checked for being known, and no more. fd is the descriptor
// that came with it, or negative; it is the caller's.
func (c *Conn) Receive(message any) (fd int, err error) {
	fd = -1
	defer func() {
		if err != nil && fd >= 0 {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	var header [headerBytes]byte
	if fd, err = c.receiveHeader(header[:]); err != nil {
		return fd, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > c.most {
		return fd, fmt.Errorf("receive a control message: it has %d bytes", length)
	}
	if cap(c.buf) < int(length) {
		c.buf = make([]byte, length)
	}
	text := c.buf[:length]
	if length > maxKept {
		c.buf = nil
	}
	if _, err = io.ReadFull(c.unix, text); err != nil {
		return fd, fmt.Errorf("receive a control message: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(message); err != nil {
		return fd, fmt.Errorf("read a control message: %w", err)
	}
	return fd, nil
}

// receiveHeader reads a message's length, and the descriptor that comes with
// its first byte.
func (c *Conn) receiveHeader(header []byte) (fd int, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.unix.ReadMsgUnix(header, rights)
	fd = descriptor(rights[:oobn])
	switch {
	case errors.Is(err, unix.ECONNRESET): // it ended without having read all
		return fd, io.EOF
	case err != nil:
		return fd, fmt.Errorf("receive a control message: %w", err)
	case n == 0:
		return fd, io.EOF
	case flags&unix.MSG_CTRUNC != 0:
		return fd, errors.New("receive a control message: it brings more than a descriptor")
	}
	if _, err = io.ReadFull(c.unix, header[n:]); err != nil {
		return fd, fmt.Errorf("receive a control message: %w", err)
	}
	return fd, nil
}

// descriptor returns the one in the rights, and closes any other.
func descriptor(rights []byte) int {
	fd := -1
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return fd
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, other := range fds {
			if fd >= 0 {
				_ = unix.Close(other)
				continue
			}
			fd = other
		}
	}
	return fd
}

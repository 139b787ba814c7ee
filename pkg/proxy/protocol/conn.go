// SPDX-License-Identifier: Apache-2.0

package protocol

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
	// maxCommand holds the longest list of hosts that a configuration file can
	// have, the certificates of the largest order, an [Egress] with those of the
	// host's file twice and an admin's (pkg/ingress/trust: 4 MiB and 1 MiB as PEM, which is
	// longer than what they are here).
	maxCommand = 12 << 20
	// maxEvent bounds a message of a child, which reads what the network sends, in
	// bytes: more than any News or answer has.
	maxEvent = 192 << 10
	// maxKeptBuffer is what a Conn keeps for the next message.
	maxKeptBuffer = 64 << 10
	// sendTimeout bounds the wait for a peer that does not read.
	sendTimeout = 2 * time.Second
	headerBytes = 4 // the length of what follows, big-endian
)

// Conn is one end of the connection between the controller and a child process.
// Commands go from the controller to the child over a socketpair(2), which carries
// descriptors. Messages go from the child to the controller over a pipe(2), which
// carries none: a descriptor that the child sent would have to be closed by the
// controller, and close(2) of a socket that lingers blocks.
//
// Send may be called from many goroutines, Receive and its kin from one.
type Conn struct {
	socket     *net.UnixConn // commands
	pipe       *os.File      // messages
	controller bool          // this is the controller's end
	buf        []byte        // of Receive

	// patience is with a peer that does not read.
	writeTimeout time.Duration

	queue   *commandQueue // the controller's end alone
	budget  rateBudget    // the same
	writeMu sync.Mutex    // the child's end alone
}

// NewPair makes both ends. The files are the child's, in the order of [Take].
func NewPair() (near *Conn, far [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, far, fmt.Errorf("make a socketpair: %w", err)
	}
	near, err = newControllerEnd(fds[0])
	socket := os.NewFile(uintptr(fds[1]), "commands")
	if err != nil {
		return nil, far, errors.Join(err, socket.Close())
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, far, errors.Join(fmt.Errorf("make a pipe: %w", err), near.socket.Close(), socket.Close())
	}
	near.pipe = read
	near.queue = newCommandQueue(near)
	return near, [2]*os.File{socket, write}, nil
}

// newControllerEnd takes the controller's end of a socketpair. Nothing can be received on
// it: the child's send(2) gets EPIPE, and no descriptor of the child's waits there
// to be closed with it (unix(7)).
func newControllerEnd(fd int) (*Conn, error) {
	if err := unix.Shutdown(fd, unix.SHUT_RD); err != nil {
		return nil, errors.Join(fmt.Errorf("shut the socketpair for receiving: %w", err), unix.Close(fd))
	}
	socket, err := unixConnOf(os.NewFile(uintptr(fd), "commands"))
	if err != nil {
		return nil, err
	}
	return &Conn{socket: socket, controller: true, writeTimeout: sendTimeout}, nil
}

// FromFiles makes the child's end of its two files, which it closes: the socket of
// commands, and the pipe of messages.
func FromFiles(files [2]*os.File) (*Conn, error) {
	socket, err := unixConnOf(files[0])
	if err != nil {
		return nil, errors.Join(err, files[1].Close())
	}
	// Another File, which knows that the descriptor does not block.
	fd, err := unix.FcntlInt(files[1].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err = errors.Join(err, files[1].Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("take the pipe of messages: %w", err), socket.Close())
	}
	return &Conn{socket: socket, pipe: os.NewFile(uintptr(fd), "messages"), writeTimeout: sendTimeout}, nil
}

func unixConnOf(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("take the control socket: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the control socket is a %T", conn), conn.Close())
	}
	return socket, nil
}

// Close ends the connection; the peer receives io.EOF. What the controller's end
// has not sent yet is dropped. End the child before: then nothing can hold the
// controller up here.
func (c *Conn) Close() error {
	if c.controller {
		c.queue.close()
	}
	return errors.Join(c.socket.Close(), c.pipe.Close())
}

// ErrTooLarge is a message that is larger than a Conn carries. Nothing of it was
// sent.
var ErrTooLarge = errors.New("the message is too large")

var errUnknownMessage = errors.New("receive a control message: no child of this program sends such a message")

// Send sends a message, such as an [Order] or a [Word], with fd unless that is
// negative; a child sends no descriptors. The controller's end does not wait for
// the child: it queues the message with a duplicate of fd. After another error than
// [ErrTooLarge] the connection is of no use.
func (c *Conn) Send(message any, fd int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("write a control message: %w", err)
	}
	most := maxEvent
	if c.controller {
		most = maxCommand
	}
	if len(text) > most {
		return fmt.Errorf("write a control message: %w: it has %d bytes", ErrTooLarge, len(text))
	}
	framed := append(binary.BigEndian.AppendUint32(make([]byte, 0, headerBytes+len(text)), uint32(len(text))), text...) //nolint:gosec // bounded above
	switch {
	case c.controller:
		err = c.queue.add(framed, fd)
	case fd >= 0:
		err = errors.New("a child sends no descriptors")
	default:
		err = c.write(framed)
	}
	if err != nil {
		return fmt.Errorf("send a control message: %w", err)
	}
	return nil
}

// write is the child's way to send.
func (c *Conn) write(framed []byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.pipe.SetWriteDeadline(time.Now().Add(c.writeTimeout)); err != nil {
		return err
	}
	_, err := c.pipe.Write(framed)
	return err
}

// ReceiveCommand waits for the next order. fd is the descriptor that came with
// it, or negative; it is the caller's.
func (c *Conn) ReceiveCommand() (o Command, fd int, err error) {
	fd, err = c.Receive(&o)
	return o, fd, err
}

// ReceiveEvent waits for the next word. Words bring no descriptors.
func (c *Conn) ReceiveEvent() (w Event, err error) {
	_, err = c.Receive(&w)
	return w, err
}

// Receive waits for the next message. Its fields are checked for being known, and
// no more. A message of a child is bounded in bytes and values, and so are the
// messages of a second: more of them is an error. When the child does not read its
// commands, the error says so. fd is the descriptor that came with a command, or
// negative; it is the caller's.
func (c *Conn) Receive(message any) (fd int, err error) {
	fd = -1
	defer func() {
		if err != nil && fd >= 0 {
			_ = unix.Close(fd)
			fd = -1
		}
		if err != nil && c.controller && c.queue.lastError() != nil {
			err = c.queue.lastError()
		}
	}()
	var header [headerBytes]byte
	if c.controller {
		err = c.readEventHeader(header[:])
	} else {
		fd, err = c.readCommandHeader(header[:])
	}
	if err != nil {
		return fd, err
	}
	length := int(binary.BigEndian.Uint32(header[:]))
	text, err := c.readBody(length)
	if err != nil {
		return fd, err
	}
	if c.controller {
		if err = c.budget.spend(length, time.Now()); err != nil {
			return fd, err
		}
		if n := countValues(text); n > maxValues {
			return fd, fmt.Errorf("receive a control message: it has %d values, more than %d", n, maxValues)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(message)
	switch {
	case err == nil:
		return fd, nil
	case c.controller:
		return fd, errUnknownMessage // a decoder's error quotes what the child has sent
	default:
		return fd, fmt.Errorf("read a control message: %w", err)
	}
}

// readBody reads what follows a header. It is valid until the next call.
func (c *Conn) readBody(length int) ([]byte, error) {
	most, from := maxCommand, io.Reader(c.socket)
	if c.controller {
		most, from = maxEvent, c.pipe
	}
	if length > most {
		return nil, fmt.Errorf("receive a control message: it has %d bytes, more than %d", length, most)
	}
	if cap(c.buf) < length {
		c.buf = make([]byte, length)
	}
	text := c.buf[:length]
	if length > maxKeptBuffer {
		c.buf = nil
	}
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, fmt.Errorf("receive a control message: %w", err)
	}
	return text, nil
}

// readEventHeader reads the length of a child's message.
func (c *Conn) readEventHeader(header []byte) error {
	_, err := io.ReadFull(c.pipe, header)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("receive a control message: %w", err)
}

// readCommandHeader reads the length of a command, and the descriptor that comes with
// its first byte.
func (c *Conn) readCommandHeader(header []byte) (fd int, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(header, rights)
	fd = firstDescriptor(rights[:oobn])
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
	if _, err = io.ReadFull(c.socket, header[n:]); err != nil {
		return fd, fmt.Errorf("receive a control message: %w", err)
	}
	return fd, nil
}

// firstDescriptor returns the one in the rights, and closes any other.
func firstDescriptor(rights []byte) int {
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

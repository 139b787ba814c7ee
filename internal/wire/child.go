// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Child is the end of the child process.
//
// Send may be called from several goroutines, Receive from one.
type Child struct {
	socket *net.UnixConn // commands
	pipe   *os.File      // events
	buf    []byte        // of Receive
}

// NewChild returns the child's end of its two files, which it closes: the socket of
// commands and the pipe of events.
func NewChild(files [2]*os.File) (*Child, error) {
	socket, err := unixConn(files[0])
	if err != nil {
		return nil, errors.Join(err, files[1].Close())
	}
	// os.NewFile recognizes a nonblocking descriptor, which the inherited one is not.
	fd, err := unix.FcntlInt(files[1].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err = errors.Join(err, files[1].Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("open the pipe of events: %w", err), socket.Close())
	}
	return &Child{socket: socket, pipe: os.NewFile(uintptr(fd), "events")}, nil
}

// Send sends an event. While the parent does not read and the pipe is full, it waits: the
// parent can be stopped or swapped out for seconds, and must not lose its child for that. The
// wait ends with the parent (EPIPE) or with [Child.Close].
//
// The connection is unusable after every error but [ErrTooLarge] and [ErrPayloads].
func (c *Child) Send(event any) error {
	framed, err := encode(event, maxEvent)
	if err != nil {
		return err
	}
	// Concurrent calls of Write are not interleaved (internal/poll.FD).
	if _, err = c.pipe.Write(framed); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}

// Receive waits for the next command. fd is the descriptor that came with the command,
// or negative. The caller owns it. After the end of the parent the error wraps io.EOF.
func (c *Child) Receive(command any) (fd int, err error) {
	fd, err = c.receive(command)
	if err == nil {
		return fd, nil
	}
	if fd >= 0 {
		_ = unix.Close(fd)
	}
	return -1, fmt.Errorf("receive a command: %w", err)
}

func (c *Child) receive(command any) (fd int, err error) {
	var header [headerBytes]byte
	if fd, err = c.receiveHeader(header[:]); err != nil {
		return fd, err
	}
	text, err := readText(c.socket, header, maxCommand, &c.buf)
	if err != nil {
		return fd, err
	}
	return fd, decode(text, command)
}

// receiveHeader reads the length of a command, and the descriptor that comes with its
// first byte.
func (c *Child) receiveHeader(header []byte) (fd int, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(header, rights)
	fd = firstDescriptor(rights[:oobn])
	switch {
	case errors.Is(err, unix.ECONNRESET): // the parent closed its end before it had read everything
		return fd, io.EOF
	case err != nil:
		return fd, err
	case n == 0:
		return fd, io.EOF
	case flags&unix.MSG_CTRUNC != 0:
		return fd, errors.New("more than one descriptor")
	}
	_, err = io.ReadFull(c.socket, header[n:])
	return fd, err
}

// firstDescriptor returns the first descriptor in the rights and closes the others.
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

// Close closes the connection.
func (c *Child) Close() error { return errors.Join(c.socket.Close(), c.pipe.Close()) }

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Parent is the end of the process that starts the child process. Commands go to the
// child over a socketpair(2), which carries descriptors. Events come over a pipe(2),
// which carries none: the parent would have to close a descriptor of the child, and
// close(2) of a socket with SO_LINGER blocks.
//
// Send may be called from several goroutines, Receive from one.
type Parent struct {
	socket *net.UnixConn // commands
	pipe   *os.File      // events
	queue  *queue
	budget budget
	buf    []byte // of Receive

	writeTimeout time.Duration
}

// NewPair returns the parent's end and the two files of the child's end, in the order
// of [NewChild].
func NewPair() (parent *Parent, files [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, files, fmt.Errorf("create a socketpair: %w", err)
	}
	socket, err := sendOnly(fds[0])
	commands := os.NewFile(uintptr(fds[1]), "commands")
	if err != nil {
		return nil, files, errors.Join(err, commands.Close())
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, files, errors.Join(fmt.Errorf("create a pipe: %w", err), socket.Close(), commands.Close())
	}
	parent = &Parent{socket: socket, pipe: read, writeTimeout: writeTimeout}
	parent.queue = newQueue(parent)
	return parent, [2]*os.File{commands, write}, nil
}

// sendOnly returns the parent's end of a socketpair. Nothing can be received on it: the
// child's send(2) fails with EPIPE, and no descriptor of the child waits there to be
// closed with the socket (unix(7)).
func sendOnly(fd int) (*net.UnixConn, error) {
	if err := unix.Shutdown(fd, unix.SHUT_RD); err != nil {
		return nil, errors.Join(fmt.Errorf("shut the socketpair down for receiving: %w", err), unix.Close(fd))
	}
	return unixConn(os.NewFile(uintptr(fd), "commands"))
}

// unixConn replaces a file by the connection of the same socket.
func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open the socket of commands: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("open the socket of commands: it is a %T", conn), conn.Close())
	}
	return socket, nil
}

// Send queues a command, and a duplicate of fd unless fd is negative. It does not wait
// for the child. The connection is unusable after every error but [ErrTooLarge] and
// [ErrPayloads].
func (p *Parent) Send(command any, fd int) error {
	framed, err := encode(command, maxCommand)
	if err != nil {
		return err
	}
	if err := p.queue.add(framed, fd); err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	return nil
}

// Receive waits for the next event and validates it. It bounds the event in bytes and
// values, and the events of a second in number and bytes. When the child does not read
// its commands, the error reports that. After the end of the child it wraps io.EOF.
func (p *Parent) Receive(event Event) error {
	err := p.receive(event)
	if err == nil {
		return nil
	}
	if failure := p.queue.failure(); failure != nil {
		err = failure
	}
	return fmt.Errorf("receive an event: %w", err)
}

func (p *Parent) receive(event Event) error {
	var header [headerBytes]byte
	if _, err := io.ReadFull(p.pipe, header[:]); err != nil {
		return err
	}
	text, err := readText(p.pipe, header, maxEvent, &p.buf)
	if err != nil {
		return err
	}
	if err := p.budget.spend(len(text), time.Now()); err != nil {
		return err
	}
	return DecodeEvent(text, event)
}

// Close closes the connection: the child receives io.EOF. Commands in the queue are dropped.
// End the child first, so that it cannot block this call.
func (p *Parent) Close() error {
	p.queue.close()
	return errors.Join(p.socket.Close(), p.pipe.Close())
}

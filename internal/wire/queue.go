// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of the queue for a child that does not read: commands of ordinary size,
// and the largest command beside another one.
const (
	maxQueued      = 256
	maxQueuedBytes = 2 * maxCommand
)

var (
	errNotReading = errors.New("the child process does not read its commands")
	errClosed     = errors.New("the connection is closed")
)

// queue holds the commands for a child and sends them in a goroutine of its own, so
// that a child that does not read blocks nobody. When the queue overflows, or the child
// does not read a command within the timeout, the connection ends: Receive returns the
// reason.
type queue struct {
	parent *Parent

	mu      sync.Mutex
	pending []queuedCommand
	bytes   int
	err     error
	wake    chan struct{} // receives a value after a command was queued, or the queue was closed
}

// queuedCommand is a framed command, and a descriptor that the queue owns, or a
// negative number.
type queuedCommand struct {
	framed []byte
	fd     int
}

func newQueue(parent *Parent) *queue {
	q := &queue{parent: parent, wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

// add queues a command with a duplicate of fd, unless fd is negative.
func (q *queue) add(framed []byte, fd int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if len(q.pending) == maxQueued || q.bytes+len(framed) > maxQueuedBytes {
		q.fail(errNotReading)
		return errNotReading
	}
	if fd >= 0 {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("duplicate the descriptor: %w", err)
		}
		fd = own
	}
	q.pending = append(q.pending, queuedCommand{framed, fd})
	q.bytes += len(framed)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// fail ends the connection. The caller holds mu.
func (q *queue) fail(reason error) {
	if q.err != nil {
		return
	}
	q.err = reason
	for _, c := range q.pending {
		c.closeDescriptor()
	}
	q.pending = nil
	q.signal()
	// Receive returns, and its caller ends the child. Only Close closes the pipe.
	_ = q.parent.pipe.SetReadDeadline(time.Unix(1, 0))
}

func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail(errClosed)
}

func (q *queue) run() {
	for range q.wake {
		for {
			c, more, failed := q.next()
			if failed {
				return
			}
			if !more {
				break
			}
			err := q.parent.write(c)
			c.closeDescriptor()
			if err != nil {
				q.mu.Lock()
				q.fail(err)
				q.mu.Unlock()
				return
			}
		}
	}
}

// next removes the oldest command from the queue.
func (q *queue) next() (c queuedCommand, more, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil || len(q.pending) == 0 {
		return queuedCommand{}, false, q.err != nil
	}
	c = q.pending[0]
	q.pending = q.pending[1:]
	q.bytes -= len(c.framed)
	return c, true, false
}

// closeDescriptor closes the duplicate. After a successful write the kernel holds
// another one for the child.
func (c queuedCommand) closeDescriptor() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
}

// write sends one command to the child. A timeout that elapsed while this process did not run
// begins again: the child could not read what was not written.
func (p *Parent) write(c queuedCommand) error {
	var rights []byte
	if c.fd >= 0 {
		rights = unix.UnixRights(c.fd)
	}
	for n := 0; n < len(c.framed); {
		begin := time.Now()
		if err := p.socket.SetWriteDeadline(begin.Add(p.writeTimeout)); err != nil {
			return err
		}
		written, err := p.writePart(c.framed[n:], rights)
		if n += written; n > 0 {
			rights = nil
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case time.Since(begin) < p.writeTimeout+stallThreshold:
			return errNotReading
		}
	}
	return nil
}

// writePart writes until all is written, or the deadline.
func (p *Parent) writePart(b, rights []byte) (n int, err error) {
	if len(rights) > 0 {
		// The descriptor goes with the first byte (unix(7), SCM_RIGHTS).
		n, _, err = p.socket.WriteMsgUnix(b, rights, nil)
	}
	for err == nil && n < len(b) {
		var more int
		more, err = p.socket.Write(b[n:])
		n += more
	}
	return n, err
}

// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What waits for a child that does not read: some commands of ordinary size, and
// the largest beside another one.
const (
	maxQueued      = 256
	maxQueuedBytes = 2 * maxCommand
)

var (
	errNotReading = errors.New("the child does not read its commands")
	errClosed     = errors.New("the connection is closed")
)

// commandQueue holds the commands for a child and sends them in a goroutine of its own, so
// that a child that does not read holds nobody up. When it overflows, or a command
// is not read within sendTimeout, the connection ends: Receive returns why.
type commandQueue struct {
	conn *Conn

	mu      sync.Mutex
	pending []queuedCommand
	bytes   int
	err     error
	wake    chan struct{} // yields a value after something was queued, or the queue was closed
}

// queuedCommand is a framed message, and a descriptor of the queue's or a negative number.
type queuedCommand struct {
	framed []byte
	fd     int
}

func newCommandQueue(conn *Conn) *commandQueue {
	q := &commandQueue{conn: conn, wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

// add queues a message with a duplicate of fd unless that is negative.
func (q *commandQueue) add(framed []byte, fd int) error {
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

func (q *commandQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// fail ends the connection. It needs mu.
func (q *commandQueue) fail(why error) {
	if q.err != nil {
		return
	}
	q.err = why
	for _, c := range q.pending {
		c.closeDescriptor()
	}
	q.pending = nil
	q.signal()
	// Receive returns, and with it who attends the child. The pipe is closed by
	// Close alone.
	_ = q.conn.pipe.SetReadDeadline(time.Unix(1, 0))
}

func (q *commandQueue) lastError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *commandQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail(errClosed)
}

func (q *commandQueue) run() {
	for range q.wake {
		for {
			c, more, broken := q.next()
			if broken {
				return
			}
			if !more {
				break
			}
			err := q.conn.writeCommand(c)
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

// next takes the oldest command.
func (q *commandQueue) next() (c queuedCommand, more, broken bool) {
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

// closeDescriptor closes the descriptor, which the kernel holds for the child by then.
func (c queuedCommand) closeDescriptor() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
}

// writeCommand sends one command to the child.
func (c *Conn) writeCommand(m queuedCommand) error {
	if err := c.socket.SetWriteDeadline(time.Now().Add(c.writeTimeout)); err != nil {
		return err
	}
	var rights []byte
	if m.fd >= 0 {
		rights = unix.UnixRights(m.fd)
	}
	// The descriptor goes with the first byte (unix(7), SCM_RIGHTS).
	n, _, err := c.socket.WriteMsgUnix(m.framed, rights, nil)
	for err == nil && n < len(m.framed) {
		var more int
		more, err = c.socket.Write(m.framed[n:])
		n += more
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errNotReading
	}
	return err
}

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
	errOverflow = errors.New("the child does not read its commands")
	errClosed   = errors.New("the connection is closed")
)

// queue holds the commands for a child and sends them in a goroutine of its own, so
// that a child that does not read holds nobody up. When it overflows, or a command
// is not read within sendTimeout, the connection ends: Receive returns why.
type queue struct {
	conn *Conn

	mu      sync.Mutex
	waiting []command
	bytes   int
	broken  error
	wake    chan struct{} // yields a value after something was queued, or the queue was closed
}

// command is a framed message, and a descriptor of the queue's or a negative number.
type command struct {
	framed []byte
	fd     int
}

func newQueue(conn *Conn) *queue {
	q := &queue{conn: conn, wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

// add queues a message with a duplicate of fd unless that is negative.
func (q *queue) add(framed []byte, fd int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil {
		return q.broken
	}
	if len(q.waiting) == maxQueued || q.bytes+len(framed) > maxQueuedBytes {
		q.fail(errOverflow)
		return errOverflow
	}
	if fd >= 0 {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("duplicate the descriptor: %w", err)
		}
		fd = own
	}
	q.waiting = append(q.waiting, command{framed, fd})
	q.bytes += len(framed)
	q.touch()
	return nil
}

func (q *queue) touch() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// fail ends the connection. It needs mu.
func (q *queue) fail(why error) {
	if q.broken != nil {
		return
	}
	q.broken = why
	for _, c := range q.waiting {
		c.release()
	}
	q.waiting = nil
	q.touch()
	// Receive returns, and with it who attends the child. The pipe is closed by
	// Close alone.
	_ = q.conn.pipe.SetReadDeadline(time.Unix(1, 0))
}

func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.broken
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail(errClosed)
}

func (q *queue) run() {
	for range q.wake {
		for {
			c, more, broken := q.next()
			if broken {
				return
			}
			if !more {
				break
			}
			err := q.conn.transmit(c)
			c.release()
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
func (q *queue) next() (c command, more, broken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil || len(q.waiting) == 0 {
		return command{}, false, q.broken != nil
	}
	c = q.waiting[0]
	q.waiting = q.waiting[1:]
	q.bytes -= len(c.framed)
	return c, true, false
}

// release closes the descriptor, which the kernel holds for the child by then.
func (c command) release() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
}

// transmit sends one command to the child.
func (c *Conn) transmit(m command) error {
	if err := c.socket.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
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
		return errOverflow
	}
	return err
}

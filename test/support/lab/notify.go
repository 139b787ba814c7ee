// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage and maxDescriptors limit one sd_notify message.
const (
	maxMessage     = 64 << 10
	maxDescriptors = 8
)

// Notifications is the receiving end of sd_notify(3): a real socket with all received
// messages in order.
type Notifications struct {
	Path string // value for NOTIFY_SOCKET

	conn  *net.UnixConn
	store *DescriptorStore // nil without one
	done  chan struct{}

	mu      sync.Mutex
	lines   []string
	readyAt time.Time
	waiting map[string][]chan struct{} // by assignment
}

// ListenNotify opens a notify socket. store takes the descriptors; nil takes none.
func ListenNotify(dir, name string, store *DescriptorStore) (*Notifications, error) {
	path := filepath.Join(dir, name)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for notifications: %w", err)
	}
	n := &Notifications{
		Path: path, conn: conn, store: store, done: make(chan struct{}),
		waiting: make(map[string][]chan struct{}),
	}
	go n.receive()
	return n, nil
}

func (n *Notifications) receive() {
	defer close(n.done)
	message, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(maxDescriptors*4))
	for {
		size, rightsSize, _, _, err := n.conn.ReadMsgUnix(message, rights)
		if err != nil {
			return // closed with the service
		}
		lines := strings.Split(strings.TrimSpace(string(message[:size])), "\n")
		n.store.receive(lines, rights[:rightsSize])
		n.record(lines, time.Now())
	}
}

func (n *Notifications) record(lines []string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, lines...)
	if n.readyAt.IsZero() && slices.Contains(lines, "READY=1") {
		n.readyAt = now
	}
	for _, line := range lines {
		for _, next := range n.waiting[line] {
			close(next)
		}
		delete(n.waiting, line)
	}
}

// Next returns a channel that is closed when an assignment such as READY=1 is received
// after this call.
func (n *Notifications) Next(assignment string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := make(chan struct{})
	n.waiting[assignment] = append(n.waiting[assignment], next)
	return next
}

// Drain returns when everything that was sent before was received: the messages of a
// process that exited can still be in the socket. It sends a barrier, which receive
// answers in order (sd_notify_barrier(3)).
func (n *Notifications) Drain() error {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	near, far, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create a barrier: %w", err)
	}
	defer func() { _ = near.Close() }()
	err = unix.Sendmsg(socket, []byte("BARRIER=1"), unix.UnixRights(int(far.Fd())), &unix.SockaddrUnix{Name: n.Path}, 0)
	if err = errors.Join(err, far.Close()); err != nil {
		return fmt.Errorf("send a barrier: %w", err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("wait for the barrier: %w", err)
	}
	return nil
}

// ReadyAt returns the time of the first READY=1, or zero.
func (n *Notifications) ReadyAt() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.readyAt
}

// All returns every assignment so far, such as READY=1, in order.
func (n *Notifications) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// Count returns how often an assignment was received.
func (n *Notifications) Count(assignment string) int {
	count := 0
	for _, line := range n.All() {
		if line == assignment {
			count++
		}
	}
	return count
}

// Status returns the last STATUS text, or "".
func (n *Notifications) Status() string {
	last := ""
	for _, line := range n.All() {
		if text, ok := strings.CutPrefix(line, "STATUS="); ok {
			last = text
		}
	}
	return last
}

// Close closes the socket.
func (n *Notifications) Close() error {
	err := n.conn.Close()
	<-n.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

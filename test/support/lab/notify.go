// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net"
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
}

func listenNotify(dir, name string, store *DescriptorStore) (*Notifications, error) {
	path := filepath.Join(dir, name)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for notifications: %w", err)
	}
	n := &Notifications{Path: path, conn: conn, store: store, done: make(chan struct{})}
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

func (n *Notifications) close() error {
	err := n.conn.Close()
	<-n.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

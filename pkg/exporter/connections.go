// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxConnections and maxPerSource bound the open connections. A scrape needs one for a few
	// milliseconds. The descriptor limit of this process allows twice as many.
	maxConnections = 128
	maxPerSource   = 64
	// minTime is how long every client has for its request. It bounds the connections that are
	// accepted at a time: 2,000 a second of one source.
	minTime = 30 * time.Millisecond
	// answerTime is how long every client has to read its response, while others wait.
	answerTime = 100 * time.Millisecond
	// retryDelay is the wait while no connection may be replaced. Accepting is then too far ahead
	// of reading.
	retryDelay = 3 * time.Millisecond
)

// boundedListener accepts every connection. Beyond the bounds, it closes another one in its place,
// so that a scrape never waits for clients that keep theirs open.
type boundedListener struct {
	net.Listener

	mu   sync.Mutex
	open []*connection // in the order of their arrival
}

// connection is the connection of a client.
type connection struct {
	net.Conn

	listener   *boundedListener
	source     netip.Prefix
	acceptedAt time.Time
	stage      atomic.Int32 // set without a wait after a read
	answeredAt atomic.Int64 // Unix time in nanoseconds; set before the stage is answered
}

// The stages of a connection.
const (
	unread    = iota // nothing was read
	partial          // the end of the request was not read
	requested        // the client waits for this process
	answered         // the response is being sent
)

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, listener: l, source: sourceOf(accepted.RemoteAddr()), acceptedAt: time.Now()}
	l.mu.Lock()
	l.open = append(l.open, c)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		replaced, retry := replaceable(l.open, time.Now(), (*connection).hasUnread)
		l.mu.Unlock()
		if replaced != nil {
			_ = replaced.Close()
		}
		if !retry {
			return c, nil
		}
		<-time.After(retryDelay)
	}
}

// replaceable returns the connection that the last one of open replaces, or nil if all are within
// the bounds. It is the one that has kept this process waiting longest for its request, for minTime
// at least, or else for answerTime until it reads its response; if the source of the last one has
// too many, one of these. A client that waits for this process is never replaced, however slow this
// process is. retry means that none may be replaced yet.
func replaceable(open []*connection, now time.Time, hasUnread func(*connection) bool) (
	replaced *connection, retry bool,
) {
	others, newest := open[:len(open)-1], open[len(open)-1]
	ofSource := 0
	for _, c := range open {
		if c.source == newest.source {
			ofSource++
		}
	}
	if ofSource <= maxPerSource && len(open) <= maxConnections {
		return nil, false
	}
	for _, c := range others {
		if ofSource > maxPerSource && c.source != newest.source {
			continue
		}
		switch stage := c.stage.Load(); stage {
		case unread, partial:
			if now.Sub(c.acceptedAt) >= minTime && (stage == partial || !hasUnread(c)) {
				return c, false
			}
		case answered:
			if now.UnixNano()-c.answeredAt.Load() >= int64(answerTime) && replaced == nil {
				replaced = c
			}
		}
	}
	return replaced, replaced == nil
}

// Read implements net.Conn. A scraper sends its request in one packet.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case bytes.HasSuffix(p[:n], []byte("\r\n\r\n")):
		c.stage.Store(requested)
	case n > 0:
		c.stage.Store(partial)
	}
	return n, err
}

// Write implements net.Conn. It can wait for the client to read.
func (c *connection) Write(p []byte) (int, error) {
	if c.stage.Load() == requested {
		c.answeredAt.Store(time.Now().UnixNano())
		c.stage.Store(answered)
	}
	return c.Conn.Write(p)
}

// hasUnread reports whether bytes have arrived.
func (c *connection) hasUnread() bool {
	socket, is := c.Conn.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = sockopt.Control(raw, func(fd int) (err error) {
		var one [1]byte
		n, _, _, _, err = unix.Recvmsg(fd, one[:], nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err
	})
	return err == nil && n > 0
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.open = slices.DeleteFunc(c.listener.open, func(other *connection) bool { return other == c })
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// sourceOf returns what identifies the source of a connection.
func sourceOf(client net.Addr) netip.Prefix {
	tcp, is := client.(*net.TCPAddr)
	if !is {
		return netip.Prefix{}
	}
	return report.SourceOf(tcp.AddrPort().Addr().Unmap())
}

type connectionKey struct{}

// withConnection returns the context of the requests of a connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// setPartial records that the end of a request was not read.
func setPartial(ctx context.Context) {
	if c, is := ctx.Value(connectionKey{}).(*connection); is {
		c.stage.Store(partial)
	}
}

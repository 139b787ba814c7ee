// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// stage is what a connection in flight waits for.
type stage uint8

const (
	readingHead stage = iota // waits for its head
	answering                // waits for the upstream, or for the write of its response
	lingering                // has its response and waits for the client to close; see closeConnection
	evicted                  // must end; its goroutine has not noticed yet
)

// connectionTable holds the connections in flight and enforces their bounds. Each
// operation on one connection takes constant time and allocates nothing.
type connectionTable struct {
	mu        sync.Mutex
	limit     int
	perSource int // 0: no bound
	count     int // in flight
	evicted   int // of these, in stage evicted
	// Each connection is in one of these lists. The first one has waited longest.
	reading, lingering, busy *connectionList

	sources    map[sourceKey]*source
	sourcePool sync.Pool     // of *source
	changed    chan struct{} // closed when a connection ends or lingers, or the limit changes; nil while nobody waits
}

func newConnectionTable() *connectionTable {
	return &connectionTable{
		reading: newConnectionList(), lingering: newConnectionList(), busy: newConnectionList(),
		sources:    make(map[sourceKey]*source),
		sourcePool: sync.Pool{New: func() any { return &source{reading: newConnectionList(), lingering: newConnectionList()} }},
	}
}

func (t *connectionTable) setLimits(all, perSource int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.perSource = all, perSource
	t.signalChange()
}

// inFlight returns the number of connections in flight, and a channel that is
// closed when the number changes.
func (t *connectionTable) inFlight() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count, t.changeSignal()
}

// setStage moves c to the lists of a stage. The caller holds mu.
func (t *connectionTable) setStage(c *connection, s stage) {
	c.stage = s
	c.tableEntry.remove()
	c.sourceEntry.remove()
	switch s {
	case readingHead:
		t.reading.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.reading.pushBack(&c.sourceEntry)
		}
	case lingering:
		t.lingering.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.lingering.pushBack(&c.sourceEntry)
		}
	default:
		t.busy.pushBack(&c.tableEntry)
	}
}

// finishReading ends the wait for the head of c. complete means that a whole head arrived
// before the deadline, which an eviction shortens. It returns why c must end, or an
// empty value. An evicted connection with a complete head stays if another one can be
// evicted in its place. If none can, changed is closed when that may be different.
func (t *connectionTable) finishReading(c *connection, complete bool) (reason report.Rejection, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		if !complete {
			return c.evictionReason, nil
		}
		if !t.readmit(c) {
			return c.evictionReason, t.changeSignal()
		}
	}
	t.setStage(c, answering)
	return "", nil
}

// startLingering marks c as answered. Answered connections are evicted first.
func (t *connectionTable) startLingering(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setStage(c, lingering)
	t.signalChange()
}

func (t *connectionTable) remove(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		t.uncountEvicted(c)
	}
	c.tableEntry.remove()
	c.sourceEntry.remove()
	t.leaveSource(c)
	t.count--
	t.signalChange()
}

// shortenHeadDeadlines bounds the wait for the heads that are being read.
func (t *connectionTable) shortenHeadDeadlines(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading.forEach(func(c *connection) {
		if until.Before(c.headDeadline) {
			_ = c.tcp.SetReadDeadline(until)
		}
	})
}

func (t *connectionTable) closeAll() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range [...]*connectionList{t.reading, t.lingering, t.busy} {
		each.forEach(func(c *connection) { _ = c.tcp.Close() })
	}
	return t.count
}

// changeSignal returns the channel that the next signalChange closes. The caller holds
// mu.
func (t *connectionTable) changeSignal() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// signalChange ends every wait for a change. The caller holds mu.
func (t *connectionTable) signalChange() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// listNode is the place of a connection in a list. It is part of the connection, so
// that insertion, moves and removal neither allocate nor search.
type listNode struct {
	prev, next *listNode
	connection *connection
}

// connectionList holds connections in the order of insertion. It is a ring through
// root, which has no connection.
type connectionList struct{ root listNode }

func newConnectionList() *connectionList {
	l := new(connectionList)
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

func (l *connectionList) oldest() *connection { return l.root.next.connection }

func (l *connectionList) pushBack(e *listNode) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, e.next.prev = e, e
}

// forEach calls visit, which must not change the list.
func (l *connectionList) forEach(visit func(*connection)) {
	for e := l.root.next; e != &l.root; e = e.next {
		visit(e.connection)
	}
}

// remove takes the node out of its list, if it is in one.
func (e *listNode) remove() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// sourceKey identifies the source of a connection: an IPv4 address, or the /64 of
// an IPv6 address. One host can use any address of a /64 (RFC 4291 section 2.5.4,
// RFC 8981).
type sourceKey struct {
	network uint64
	ipv6    bool
}

// sourceKeyOf takes an unmapped address. Addresses with the well-known translation
// prefix 64:ff9b::/96 (RFC 6052 section 2.1) are identified by the IPv4 address
// inside. This single /64 contains the whole IPv4 internet.
func sourceKeyOf(a netip.Addr) sourceKey {
	if a.Is4() {
		b := a.As4()
		return sourceKey{network: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	const translated = 0x0064_ff9b_0000_0000
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if high == translated && low>>32 == 0 {
		return sourceKey{network: low}
	}
	return sourceKey{network: high, ipv6: true}
}

// source holds the connections in flight of one source.
type source struct {
	sourceKey
	count, evicted     int             // all of them, and those in stage evicted
	reading, lingering *connectionList // connections whose client is awaited, the oldest first
}

// joinSource adds c to its source. The caller holds mu.
func (t *connectionTable) joinSource(c *connection) {
	from := sourceKeyOf(c.client.Addr())
	s := t.sources[from]
	if s == nil {
		s, _ = t.sourcePool.Get().(*source)
		s.sourceKey = from
		t.sources[from] = s
	}
	s.count++
	c.source = s
}

// leaveSource removes c from its source, and deletes a source without connections.
// The caller holds mu.
func (t *connectionTable) leaveSource(c *connection) {
	s := c.source
	if c.source = nil; s == nil {
		return
	}
	if s.count--; s.count == 0 {
		delete(t.sources, s.sourceKey)
		t.sourcePool.Put(s)
	}
}

// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
)

// stage is what a connection in flight waits for.
type stage uint8

const (
	readingHead stage = iota // waits for its head
	queued                   // has a complete head, and waits for a slot of its source
	answering                // waits for the upstream, or for the write of its response
	lingering                // has its response and waits for the client to close; see connection.end
	evicted                  // must end; its worker has not noticed yet
)

// table holds the connections in flight of all workers and enforces their bounds. Each
// operation on one connection takes constant time and allocates nothing.
type table struct {
	mu        sync.Mutex
	limit     int
	perSource int // 0: no bound
	all       tally
	// Connections with a slot that can be evicted. The first one has waited longest.
	reading, lingering connectionList

	sources    map[netip.Addr]*source
	sourcePool sync.Pool        // of *source
	paused     map[*worker]bool // accept nothing until a connection ends or lingers, or the limit changes
}

type (
	connectionList = loop.List[connection]
	listNode       = loop.Node[connection]
)

// tally counts connections in flight.
type tally struct {
	slots   int // have a slot: the bounds count them
	waiting int // beyond the bound of their source
	evicted int // in stage evicted
}

func (n *tally) total() int { return n.slots + n.waiting + n.evicted }

func (n *tally) add(c *connection, difference int) {
	switch {
	case c.stage == evicted:
		n.evicted += difference
	case c.waiting:
		n.waiting += difference
	default:
		n.slots += difference
	}
}

// source holds the connections in flight of one source.
type source struct {
	tally

	addr netip.Addr // as sourceOf returns it
	// The first one of each list has waited longest. late: for its head, beyond the bound.
	reading, late, lingering, queue connectionList
}

func newTable() *table {
	t := &table{sources: make(map[netip.Addr]*source), paused: make(map[*worker]bool)}
	t.sourcePool.New = func() any { return new(source) }
	return t
}

func (t *table) setLimits(all, perSource int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.perSource = all, perSource
	for _, s := range t.sources {
		t.grant(s)
	}
	t.signalChange()
}

// inFlight returns the number of connections in flight.
func (t *table) inFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.total()
}

// count adds c to the counts, or removes it. The caller holds mu.
func (t *table) count(c *connection, difference int) {
	t.all.add(c, difference)
	c.source.add(c, difference)
}

// move puts c into a stage, with a slot or waiting beyond the bound of its source. The caller
// holds mu.
func (t *table) move(c *connection, s stage, waiting bool) {
	t.count(c, -1)
	c.tableEntry.Remove()
	c.sourceEntry.Remove()
	c.stage, c.waiting = s, waiting
	t.count(c, 1)
	switch {
	case s == readingHead && waiting:
		c.source.late.PushBack(&c.sourceEntry, c)
	case s == readingHead:
		t.reading.PushBack(&c.tableEntry, c)
		c.source.reading.PushBack(&c.sourceEntry, c)
	case s == queued:
		c.source.queue.PushBack(&c.sourceEntry, c)
	case s == lingering:
		c.source.lingering.PushBack(&c.sourceEntry, c)
		if !waiting { // otherwise its eviction would free no slot
			t.lingering.PushBack(&c.tableEntry, c)
		}
	}
}

// startLingering marks c as answered. Answered connections are evicted first. It reports
// false if c was evicted before.
func (t *table) startLingering(c *connection) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		return false
	}
	t.move(c, lingering, c.waiting)
	t.signalChange()
	return true
}

func (t *table) remove(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(c, -1)
	c.tableEntry.Remove()
	c.sourceEntry.Remove()
	t.leaveSource(c)
	t.signalChange()
}

// signalChange ends every wait for a change. The caller holds mu.
func (t *table) signalChange() {
	for w := range t.paused {
		delete(t.paused, w)
		w.Post(w.resume.Expired)
	}
}

// sourceOf returns what identifies the source of a connection: an IPv4 address, or the
// /64 of an IPv6 address. One host can use any address of a /64 (RFC 4291 section 2.5.4,
// RFC 8981). Addresses with the well-known translation prefix 64:ff9b::/96 (RFC 6052
// section 2.1) are identified by the IPv4 address inside. This single /64 contains the
// whole IPv4 internet. The address of the client is unmapped.
func sourceOf(client netip.Addr) netip.Addr {
	if client.Is4() {
		return client
	}
	b := client.As16()
	if [12]byte(b[:]) == [12]byte{0x00, 0x64, 0xff, 0x9b} {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	clear(b[8:])
	return netip.AddrFrom16(b)
}

// joinSource finds the source of c. The caller holds mu.
func (t *table) joinSource(c *connection) {
	from := sourceOf(c.client.Addr())
	s := t.sources[from]
	if s == nil {
		s, _ = t.sourcePool.Get().(*source)
		s.addr = from
		t.sources[from] = s
	}
	c.source = s
}

// leaveSource deletes a source without connections, or gives the slot of c to another one.
// The caller holds mu.
func (t *table) leaveSource(c *connection) {
	s := c.source
	c.source = nil
	if s.total() == 0 {
		delete(t.sources, s.addr)
		t.sourcePool.Put(s)
		return
	}
	t.grant(s)
}

// yield moves the connection of a source that has waited longest for its head beyond the
// bound. It reports whether there is one: its slot is free for a complete head. The caller
// holds mu.
func (t *table) yield(s *source) bool {
	c := s.reading.First()
	if c != nil {
		t.move(c, readingHead, true)
	}
	return c != nil
}

// hasRoom reports whether the bound of a source leaves a slot. The caller holds mu.
func (t *table) hasRoom(s *source) bool { return t.perSource == 0 || s.slots < t.perSource }

// grant gives free slots of a source to those of its connections that have waited longest
// with a complete head. The caller holds mu.
func (t *table) grant(s *source) {
	for c := s.queue.First(); c != nil && t.hasRoom(s); c = s.queue.First() {
		t.move(c, answering, false)
		c.worker.Post(c.noticed)
	}
}

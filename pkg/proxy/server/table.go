// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
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
	count     int // in flight
	evicted   int // of these, in stage evicted
	waiting   int // of these, beyond the bound of their source
	// Each connection is in one of these lists. The first one has waited longest.
	reading, late, lingering, busy connectionList // late: waits for its head beyond the bound of its source

	sources    map[sourceKey]*source
	sourcePool sync.Pool        // of *source
	changed    chan struct{}    // closed when a connection ends or lingers, or the limit changes; nil while nobody waits
	paused     map[*worker]bool // accept nothing until the same
}

type (
	connectionList = loop.List[connection]
	listNode       = loop.Node[connection]
)

func newTable() *table {
	t := &table{sources: make(map[sourceKey]*source), paused: make(map[*worker]bool)}
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

// inFlight returns the number of connections in flight, and a channel that is
// closed when the number changes.
func (t *table) inFlight() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.count, t.changed
}

// active returns the number of connections that the limit counts. The caller holds mu.
func (t *table) active() int { return t.count - t.evicted - t.waiting }

// setStage moves c to the lists of a stage. The caller holds mu.
func (t *table) setStage(c *connection, s stage) {
	c.stage = s
	c.tableEntry.Remove()
	c.sourceEntry.Remove()
	switch s {
	case readingHead:
		if c.waiting {
			t.late.PushBack(&c.tableEntry, c)
			c.source.late.PushBack(&c.sourceEntry, c)
			return
		}
		t.reading.PushBack(&c.tableEntry, c)
		if c.source != nil {
			c.source.reading.PushBack(&c.sourceEntry, c)
		}
	case lingering:
		if c.waiting { // its eviction would free no slot
			t.late.PushBack(&c.tableEntry, c)
		} else {
			t.lingering.PushBack(&c.tableEntry, c)
		}
		if c.source != nil {
			c.source.lingering.PushBack(&c.sourceEntry, c)
		}
	case queued: // only with a source
		t.busy.PushBack(&c.tableEntry, c)
		c.source.queue.PushBack(&c.sourceEntry, c)
	default:
		t.busy.PushBack(&c.tableEntry, c)
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
	t.setStage(c, lingering)
	t.signalChange()
	return true
}

func (t *table) remove(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		t.uncountEvicted(c)
	}
	c.tableEntry.Remove()
	c.sourceEntry.Remove()
	t.setWaiting(c, false)
	t.leaveSource(c)
	t.count--
	t.signalChange()
}

// signalChange ends every wait for a change. The caller holds mu.
func (t *table) signalChange() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	for w := range t.paused {
		delete(t.paused, w)
		w.Post(w.resumed)
	}
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
	count, evicted, waiting   int            // all of them, those in stage evicted, and those beyond the bound
	reading, lingering, queue connectionList // the oldest first
	late                      connectionList // wait for their heads beyond the bound
}

// held returns the number of connections that the bound counts.
func (s *source) held() int { return s.count - s.evicted - s.waiting }

// joinSource adds c to its source. The caller holds mu.
func (t *table) joinSource(c *connection) {
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
func (t *table) leaveSource(c *connection) {
	s := c.source
	if c.source = nil; s == nil {
		return
	}
	if s.count--; s.count == 0 {
		delete(t.sources, s.sourceKey)
		t.sourcePool.Put(s)
		return
	}
	t.grant(s)
}

// setWaiting counts c as beyond the bound of its source, or not. The caller holds mu.
func (t *table) setWaiting(c *connection, waiting bool) {
	if c.waiting == waiting || c.source == nil {
		return
	}
	difference := 1
	if !waiting {
		difference = -1
	}
	c.waiting = waiting
	c.source.waiting += difference
	t.waiting += difference
}

// yield moves the connection of a source that has waited longest for its head beyond the
// bound. It reports whether there is one: its slot is free for a complete head. The caller
// holds mu.
func (t *table) yield(s *source) bool {
	c := s.reading.First()
	if c == nil {
		return false
	}
	t.setWaiting(c, true)
	t.setStage(c, readingHead)
	return true
}

// grant gives free slots of a source to those of its connections that have waited longest
// with a complete head. The caller holds mu.
func (t *table) grant(s *source) {
	for t.perSource == 0 || s.held() < t.perSource {
		c := s.queue.First()
		if c == nil {
			return
		}
		t.setWaiting(c, false)
		t.setStage(c, answering)
		c.worker.Post(c.noticed)
	}
}

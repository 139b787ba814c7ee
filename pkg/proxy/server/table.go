// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// stage is what a connection in flight waits for.
type stage uint8

const (
	readingHead stage = iota // waits for its head
	queued                   // the head of a challenge is complete, and it waits for a slot
	lingering                // got its response and waits for the client to close; see connection.end
	answering                // holds a slot: waits for the upstream, or for the write of its response
	evicted                  // must end; its worker did not notice yet
	stageCount
)

// table holds the connections in flight of all workers and enforces their bounds. A challenge
// that is forwarded holds a slot. Other connections wait in the waiting room. Unless a bound is
// reached, each operation on one connection takes constant time and allocates nothing.
type table struct {
	mu        sync.Mutex
	limit     int // slots
	perSource int // slots of one source; 0: no bound
	all       group
	now       time.Time // of the current operation
	clock     func(*connection) time.Time

	sources    map[netip.Prefix]*source
	sourcePool sync.Pool // of *source
	hosts      map[string]*host
	hostPool   sync.Pool // of *host
	flows      map[flowKey]*flow
	busy       loop.List[host]   // those with more than an equal part of the slots; see busyPart
	turns      loop.List[source] // those whose next challenge waits for one of all slots
	greedy     loop.List[source] // those with more than their part of the waiting room
	paused     map[*worker]bool  // accept nothing until a connection ends or lingers, or the limit changes
	repeats    repeats
}

type (
	connectionList = loop.List[connection]
	listNode       = loop.Node[connection]
)

// group holds the connections in flight of all sources, or of one, by their stage. The first
// one of each list entered its stage before the others.
type group struct {
	lists  [stageCount]connectionList
	counts [stageCount]int
}

func (g *group) slots() int { return g.counts[answering] }

// waiting counts the waiting room.
func (g *group) waiting() int { return g.counts[readingHead] + g.counts[queued] + g.counts[lingering] }

func (g *group) total() int { return g.slots() + g.waiting() + g.counts[evicted] }

// source holds the connections in flight of one source.
type source struct {
	group

	prefix netip.Prefix // as report.SourceOf returns it
	// The flows with queued challenges, in the order of their turns.
	flows     loop.List[flow]
	flowCount int

	turn, greedy loop.Node[source] // in the lists of table
}

// host is the name in the Host field of challenges with a slot, or queued.
type host struct {
	name      string
	users     int // connections that refer to it
	exchanges connectionList
	count     int // of exchanges
	ofSource  int // scratch of source.longestExchange
	busy      loop.Node[host]
}

// flow is the queued challenges of one source for one host.
type flow struct {
	key   flowKey
	queue connectionList
	turn  loop.Node[flow]
}

type flowKey struct {
	source *source
	host   *host
}

// busyPart is the part of the slots that a host must exceed to be busy. A CA that validates one
// name from many places at once uses far less.
const busyPart = 16

func newTable() *table {
	t := &table{
		sources: make(map[netip.Prefix]*source), hosts: make(map[string]*host), flows: make(map[flowKey]*flow),
		paused: make(map[*worker]bool), repeats: repeats{hosts: make(map[string]time.Time)},
		clock: func(c *connection) time.Time { return c.worker.Now() },
	}
	t.sourcePool.New = func() any { return new(source) }
	t.hostPool.New = func() any { return new(host) }
	return t
}

func (t *table) setLimits(all, perSource int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = time.Now()
	t.limit, t.perSource = all, perSource
	for _, s := range t.sources {
		t.update(s)
	}
	t.grant()
	t.signalChange()
}

// inFlight returns the number of connections in flight.
func (t *table) inFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.total()
}

// move puts c into another stage. The caller holds mu.
func (t *table) move(c *connection, s stage) {
	t.unlist(c)
	t.list(c, s)
}

// list puts c into a stage. The caller holds mu.
func (t *table) list(c *connection, s stage) {
	c.stage, c.since = s, t.now
	t.all.counts[s]++
	c.source.counts[s]++
	t.all.lists[s].PushBack(&c.tableEntry, c)
	c.source.lists[s].PushBack(&c.sourceEntry, c)
	switch s {
	case answering:
		c.host.exchanges.PushBack(&c.hostEntry, c)
		t.countExchange(c.host, 1)
	case queued:
		key := flowKey{c.source, c.host}
		f := t.flows[key]
		if f == nil {
			f = &flow{key: key}
			t.flows[key] = f
			c.source.flows.PushBack(&f.turn, f)
			c.source.flowCount++
		}
		f.queue.PushBack(&c.hostEntry, c)
	default:
	}
	t.update(c.source)
}

// unlist takes c out of its stage. The caller holds mu.
func (t *table) unlist(c *connection) {
	t.all.counts[c.stage]--
	c.source.counts[c.stage]--
	c.tableEntry.Remove()
	c.sourceEntry.Remove()
	c.hostEntry.Remove()
	switch c.stage {
	case answering:
		t.countExchange(c.host, -1)
	case queued:
		if f := t.flows[flowKey{c.source, c.host}]; f.queue.First() == nil {
			f.turn.Remove()
			delete(t.flows, f.key)
			c.source.flowCount--
		}
		c.source.notifyNext()
	default:
	}
	t.update(c.source)
}

func (t *table) countExchange(h *host, difference int) {
	h.count += difference
	if busy := h.count > t.limit/busyPart; busy != h.busy.IsListed() {
		setListed(&t.busy, &h.busy, h, busy)
	}
}

// startLingering marks c as answered. Answered connections are evicted first. It reports false
// if c was evicted before, or the waiting room is full.
func (t *table) startLingering(c *connection) bool {
	t.lock(c)
	defer t.mu.Unlock()
	if c.stage == evicted || c.stage == answering && t.all.waiting() >= t.room() {
		return false
	}
	t.move(c, lingering)
	t.grant()
	t.signalChange()
	return true
}

func (t *table) remove(c *connection) {
	t.lock(c)
	defer t.mu.Unlock()
	if c.request.Repeated {
		t.repeats.inFlight--
	}
	t.unlist(c)
	t.leave(c)
	t.grant()
	t.signalChange()
}

// signalChange ends every wait for a change. The caller holds mu.
func (t *table) signalChange() {
	for w := range t.paused {
		delete(t.paused, w)
		w.Post(w.resume.Expired)
	}
}

// joinSource finds the source of c. The caller holds mu.
func (t *table) joinSource(c *connection) {
	from := report.SourceOf(c.client.Addr())
	s := t.sources[from]
	if s == nil {
		s, _ = t.sourcePool.Get().(*source)
		s.prefix = from
		t.sources[from] = s
	}
	c.source = s
}

// joinHost finds the host of a challenge. The caller holds mu.
func (t *table) joinHost(c *connection) {
	h := t.hosts[c.hostname]
	if h == nil {
		h, _ = t.hostPool.Get().(*host)
		h.name = c.hostname
		t.hosts[h.name] = h
	}
	h.users++
	c.host = h
}

// leave ends the references of c to its source and host, and deletes those without connections.
// The caller holds mu.
func (t *table) leave(c *connection) {
	s, h := c.source, c.host
	c.source, c.host = nil, nil
	if s.total() == 0 {
		delete(t.sources, s.prefix)
		t.sourcePool.Put(s)
	}
	if h == nil {
		return
	}
	if h.users--; h.users == 0 {
		delete(t.hosts, h.name)
		t.hostPool.Put(h)
	}
}

// hasRoom reports whether the bound of a source leaves a slot. The caller holds mu.
func (t *table) hasRoom(s *source) bool { return t.perSource == 0 || s.slots() < t.perSource }

// update gives a source turns while its challenges wait in the queue and its bound leaves a
// slot, and records whether it is greedy. The caller holds mu.
func (t *table) update(s *source) {
	if due := s.counts[queued] > 0 && t.hasRoom(s); due != s.turn.IsListed() {
		setListed(&t.turns, &s.turn, s, due)
	}
	if greedy := t.perSource > 0 && s.waiting() > t.part(); greedy != s.greedy.IsListed() {
		setListed(&t.greedy, &s.greedy, s, greedy)
	}
}

// setListed adds an owner to a list, or removes it.
func setListed[T any](in *loop.List[T], n *loop.Node[T], owner *T, listed bool) {
	if listed {
		in.PushBack(n, owner)
	} else {
		n.Remove()
	}
}

// grant gives free slots to queued challenges: the sources take turns, and in each source the
// hosts. One busy host does not keep others of its source waiting. The caller holds mu.
func (t *table) grant() {
	for s := t.turns.First(); s != nil && t.all.slots() < t.limit; s = t.turns.First() {
		f := s.flows.First()
		c := f.queue.First()
		s.turn.Remove()
		f.turn.Remove()
		s.flows.PushBack(&f.turn, f)
		t.move(c, answering)
		c.worker.Post(c.noticed)
	}
}

// next returns the challenge of s whose turn is next, or nil. The caller holds the mutex of the table.
func (s *source) next() *connection {
	if f := s.flows.First(); f != nil {
		return f.queue.First()
	}
	return nil
}

// passTurn gives the turn of the next challenge to another host. The caller holds the mutex of the
// table.
func (s *source) passTurn() {
	if f := s.flows.First(); s.flowCount > 1 {
		f.turn.Remove()
		s.flows.PushBack(&f.turn, f)
		s.notifyNext()
	}
}

// notifyNext makes the next challenge claim a slot. The caller holds the mutex of the table.
func (s *source) notifyNext() {
	if c := s.next(); c != nil {
		c.worker.Post(c.noticed)
	}
}

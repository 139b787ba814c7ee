// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// newTestConnection returns an accepted connection of a worker that does not run.
func newTestConnection(tb testing.TB, from netip.Addr) *connection {
	tb.Helper()
	c, _ := newConnectionPair(tb, from)
	return c
}

// newConnectionPair returns such a connection and the client's end of it.
func newConnectionPair(tb testing.TB, from netip.Addr) (*connection, net.Conn) {
	tb.Helper()
	listening, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer loop.Close(listening)
	if err := errors.Join(unix.Bind(listening, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(listening, 1)); err != nil {
		tb.Fatal(err)
	}
	client, err := net.Dial("tcp", loop.LocalAddr(listening).String())
	if err != nil {
		tb.Fatal(err)
	}
	fd, _, err := loop.Accept(listening)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := loop.New()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = client.Close()
		loop.Close(fd)
		stopped, stop := context.WithCancel(context.Background())
		stop()
		_ = l.Run(stopped, func() {}) // closes its descriptors
	})
	c := newConnection(&worker{Loop: l})
	c.noticed = func() {}
	c.fd, c.client = fd, netip.AddrPortFrom(from, 1)
	return c, client
}

// TestIdleConnectionsAreBounded: a worker keeps maxIdle connections to the ingress, whatever
// their addresses, and fewer if there are fewer slots. The one that was used last is taken
// first.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for maxConnections, want := range map[int]int{4096: maxIdle, 1 << 20: maxIdle, 512: 33, 1: 1} {
		c, _ := newConnectionPair(t, netip.MustParseAddr("192.0.2.1"))
		w := c.worker
		w.server = &Server{}
		w.server.settings.Store(&protocol.Configure{MaxConnections: maxConnections})
		addrs := [2]netip.AddrPort{netip.MustParseAddrPort("192.0.2.6:80"), netip.MustParseAddrPort("[2001:db8::6]:80")}
		var all []*link
		for i := range 2 * maxIdle {
			fd, err := unix.Dup(c.fd)
			if err != nil {
				t.Fatal(err)
			}
			l := &link{worker: w, fd: fd, addr: addrs[i/maxIdle]}
			w.keepLink(l)
			all = append(all, l)
		}
		kept := slices.Collect(w.idle.Backward)
		if slices.Reverse(kept); !slices.Equal(kept, all[len(all)-want:]) || w.idleCount != want {
			t.Errorf("for %d clients, %d connections are kept, want the last %d", maxConnections, len(kept), want)
		}
		if w.takeLink(addrs[0], "") != nil || w.takeLink(addrs[1], "") != all[len(all)-1] || w.idleCount != want-1 {
			t.Errorf("%d idle connections are left", w.idleCount)
		}
		w.closeAll()
		loop.Close(all[len(all)-1].fd)
	}
}

// isIn reports whether a connection was admitted.
func isIn(a admission, _ time.Duration) bool { return a == admitted || a == waits }

// TestRandomOperations compares the counts and lists after each step with a simple model. With
// fixed limits, and without unbounded admissions, the bounds always hold.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	for name, fixed := range map[string]bool{"fixed limits": true, "other limits": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit, perSource = 12, 4
			random := rand.New(rand.NewPCG(1, 2))
			l, now := newTestTable(limit, perSource)
			var idle, in []*connection
			for i := range 40 {
				c := newTestConnection(t, netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 7)}))
				c.hostname = strconv.Itoa(i % 5)
				idle = append(idle, c)
			}
			for step := range 20_000 {
				*now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
				if len(idle) > 0 && random.IntN(2) == 0 {
					c := idle[random.IntN(len(idle))]
					c.acceptedAt = *now
					stages := []stage{readingHead, answering, lingering}
					if isIn(l.admit(c, stages[random.IntN(3)], !fixed && random.IntN(50) == 0)) {
						in, idle = append(in, c), without(idle, c)
					}
				} else if len(in) > 0 {
					c := in[random.IntN(len(in))]
					switch {
					case c.stage == readingHead, c.stage == evicted && c.host == nil && random.IntN(2) == 0:
						l.finishReading(c, random.IntN(2) == 0)
					case c.stage == queued && random.IntN(2) == 0:
						l.claim(c)
					case c.stage == answering && random.IntN(2) == 0:
						l.startLingering(c)
					default:
						l.remove(c)
						in, idle = without(in, c), append(idle, c)
					}
				}
				if !fixed && step%1000 == 999 {
					l.setLimits(1+random.IntN(limit), random.IntN(perSource))
				}
				checkTable(t, l, in)
				if fixed {
					checkBounds(t, l)
				}
			}
			for _, c := range in {
				l.remove(c)
			}
			if l.all.total() != 0 || len(l.sources)+len(l.hosts)+len(l.flows) != 0 {
				t.Errorf("in the end: %v, %d sources, %d hosts, %d flows", l.all.counts, len(l.sources), len(l.hosts), len(l.flows))
			}
		})
	}
}

// newTestTable returns a table with the time at now.
func newTestTable(limit, perSource int) (l *table, now *time.Time) {
	l, now = newTable(), new(time.Unix(0, 0))
	l.clock = func(*connection) time.Time { return *now }
	l.setLimits(limit, perSource)
	return l, now
}

func checkBounds(t *testing.T, l *table) {
	t.Helper()
	if l.all.slots() > l.limit || l.all.waiting() > l.room() {
		t.Fatalf("%v connections by stage", l.all.counts)
	}
	for _, s := range l.sources {
		if s.slots() > l.perSource {
			t.Fatalf("%d slots of one source, want at most %d", s.slots(), l.perSource)
		}
	}
}

func without(list []*connection, c *connection) []*connection {
	var rest []*connection
	for _, other := range list {
		if other != c {
			rest = append(rest, other)
		}
	}
	return rest
}

// checkTable compares the counts and lists of the table with its connections.
func checkTable(t *testing.T, l *table, in []*connection) {
	t.Helper()
	want := map[*connectionList][]*connection{}
	exchanges := map[*host]int{}
	sources := map[*source]bool{}
	for _, c := range in {
		sources[c.source] = true
		for _, list := range []*connectionList{&l.all.lists[c.stage], &c.source.lists[c.stage]} {
			want[list] = append(want[list], c)
		}
		switch c.stage {
		case answering:
			want[&c.host.exchanges] = append(want[&c.host.exchanges], c)
			exchanges[c.host]++
		case queued:
			f := l.flows[flowKey{c.source, c.host}]
			want[&f.queue] = append(want[&f.queue], c)
		default:
		}
	}
	groups := []*group{&l.all}
	for s := range sources {
		groups = append(groups, &s.group)
		due := s.counts[queued] > 0 && l.hasRoom(s)
		if s.turn.IsListed() != due || due && l.all.slots() < l.limit {
			t.Fatalf("a source with %d challenges in its queue and %d of %d slots has turns: %v; %d of %d slots are taken",
				s.counts[queued], s.slots(), l.perSource, s.turn.IsListed(), l.all.slots(), l.limit)
		}
		if greedy := l.perSource > 0 && s.waiting() > l.part(); greedy != s.greedy.IsListed() && l.perSource == 4 {
			t.Fatalf("a source with %d connections in the waiting room is greedy: %v", s.waiting(), !greedy)
		}
	}
	for _, g := range groups {
		for stage := range g.lists {
			checkList(t, &g.lists[stage], want)
			if n := len(want[&g.lists[stage]]); n != g.counts[stage] {
				t.Fatalf("%d connections are counted in stage %d, want %d", g.counts[stage], stage, n)
			}
		}
	}
	for _, h := range l.hosts {
		if checkList(t, &h.exchanges, want); h.count != exchanges[h] {
			t.Fatalf("%d exchanges of a host, want %d", h.count, exchanges[h])
		}
	}
	for key, f := range l.flows {
		if checkList(t, &f.queue, want); f.queue.First() == nil || !f.turn.IsListed() || key.source.flowCount == 0 {
			t.Fatal("a flow without challenges or without turns")
		}
	}
	if len(l.sources) != len(sources) {
		t.Fatalf("%d sources, want %d", len(l.sources), len(sources))
	}
}

// checkList compares a list, in any order.
func checkList(t *testing.T, list *connectionList, want map[*connectionList][]*connection) {
	t.Helper()
	listed := slices.Collect(list.Backward)
	for _, c := range want[list] {
		if !slices.Contains(listed, c) {
			t.Fatalf("a connection in stage %d is not in its list", c.stage)
		}
	}
	if len(listed) != len(want[list]) {
		t.Fatalf("%d connections in a list, want %d", len(listed), len(want[list]))
	}
}

// TestUnreadHeadIsNotEvicted: a client whose head has arrived is not late, even if
// its worker is.
func TestUnreadHeadIsNotEvicted(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(6, 0) // three in the waiting room
	var c [5]*connection
	var clients [5]net.Conn
	for i := range c {
		c[i], clients[i] = newConnectionPair(t, netip.MustParseAddr("192.0.2.1"))
		c[i].acceptedAt = time.Unix(int64(i), 0)
	}
	for i := range 3 {
		l.admit(c[i], readingHead, false)
	}
	sendByte(t, clients[0], c[0])
	sendByte(t, clients[2], c[2])
	*now = time.Unix(4, 0)
	l.admit(c[3], readingHead, false)
	if c[0].stage != readingHead || c[1].stage != evicted || c[2].stage != readingHead || c[3].stage != readingHead {
		t.Fatalf("stages %d, %d, %d, %d", c[0].stage, c[1].stage, c[2].stage, c[3].stage)
	}
	sendByte(t, clients[3], c[3])
	if a, wait := l.admit(c[4], readingHead, false); a != overloaded || wait != unreadRetryDelay {
		t.Errorf("got %v, wait %v", a, wait)
	}
	if c[0].stage != readingHead || c[2].stage != readingHead || c[3].stage != readingHead {
		t.Errorf("stages %d, %d, %d", c[0].stage, c[2].stage, c[3].stage)
	}
}

// TestOldestOfSourceIsEvicted: a source with its part of the waiting room loses its oldest
// connection, even if its worker is late. Newer ones, whose clients had no time to send, stay.
// If the oldest turns out to have a complete head, it is served.
func TestOldestOfSourceIsEvicted(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(6, 2) // three in the waiting room
	var c [4]*connection
	for i := range c {
		var client net.Conn
		c[i], client = newConnectionPair(t, netip.MustParseAddr("192.0.2.1"))
		*now = time.Unix(int64(i), 0)
		if c[i].acceptedAt = *now; i == 0 {
			sendByte(t, client, c[i])
		}
		if a, _ := l.admit(c[i], readingHead, false); a != admitted {
			t.Fatalf("number %d: admission %d", i, a)
		}
	}
	if c[0].stage != evicted || c[1].stage != readingHead || c[2].stage != readingHead || c[3].stage != readingHead {
		t.Fatalf("stages %d, %d, %d, %d", c[0].stage, c[1].stage, c[2].stage, c[3].stage)
	}
	if a, _ := l.finishReading(c[0], true); a != admitted || c[0].stage != answering {
		t.Errorf("the head of the oldest: admission %d, stage %d", a, c[0].stage)
	}
}

// sendByte makes the client send a byte and waits for its arrival.
func sendByte(t *testing.T, client net.Conn, c *connection) {
	t.Helper()
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	nstest.Await(t, "the byte comes", func() bool { return loop.HasUnread(c.fd) })
}

// TestEvictionsAreBounded: while maxEvicted connections have not ended, none is
// evicted.
func TestEvictionsAreBounded(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(1, 0)
	from := netip.MustParseAddr("192.0.2.1")
	var all []*connection
	for i := range maxEvicted + 1 {
		c := newTestConnection(t, from)
		*now = time.Unix(int64(i), 0)
		c.acceptedAt = *now
		if a, _ := l.admit(c, readingHead, false); a != admitted {
			t.Fatalf("connection %d has to wait", i)
		}
		all = append(all, c)
	}
	c := newTestConnection(t, from)
	*now = time.Unix(maxEvicted+1, 0)
	c.acceptedAt = *now
	if a, _ := l.admit(c, readingHead, false); a != overloaded || l.all.total() != maxEvicted+1 || !l.paused[c.worker] {
		t.Fatalf("%d in flight, the next one: %d", l.all.total(), a)
	}
	c.worker.resume.Expired = func() {}
	if a, _ := l.finishReading(all[0], false); a != rejected || all[0].evictionReason != report.Evicted {
		t.Errorf("the first leaves for %q", all[0].evictionReason)
	}
	l.remove(all[0])
	if len(l.paused) > 0 {
		t.Error("nobody was woken")
	}
	if a, _ := l.admit(c, readingHead, false); a != admitted {
		t.Error("it still has to wait")
	}
}

// TestHeadOfEvictedConnection: a head that arrives after the eviction of its connection gets a slot,
// or a place in the waiting room if another connection can be evicted.
func TestHeadOfEvictedConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		slots       int       // that are taken
		others      stage     // of the connection that was admitted in its place
		want        admission // of the head
		stage, next stage     // of both
	}{
		"a slot is free":             {0, readingHead, admitted, answering, readingHead},
		"another waits for its head": {1, readingHead, waits, queued, evicted},
		"another lingers":            {1, lingering, waits, queued, evicted},
		"another waits for a slot":   {1, queued, waits, queued, evicted},
		"another has waited for 0 s": {1, stageCount, rejected, evicted, readingHead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, now := newTestTable(1, 0) // and one place in the waiting room
			all := []*connection{}
			for i := range 3 {
				c := newTestConnection(t, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
				c.acceptedAt = time.Unix(int64(i), 0)
				all = append(all, c)
			}
			*now = time.Unix(1, 0)
			l.admit(all[0], readingHead, false)
			*now = time.Unix(2, 0)
			l.admit(all[1], readingHead, false)
			if l.admit(all[2], answering, true); test.slots == 0 {
				l.remove(all[2])
				all = all[:2]
			}
			switch test.others {
			case lingering:
				l.finishReading(all[1], false)
			case queued:
				l.finishReading(all[1], true)
			case stageCount:
				all[1].acceptedAt = *now
			default:
			}
			if test.others != stageCount {
				*now = now.Add(minExchangeTime / 2)
			}
			if a, _ := l.finishReading(all[0], true); a != test.want || all[0].stage != test.stage || all[1].stage != test.next {
				t.Errorf("got %d; stages %d and %d, want %d, %d and %d", a, all[0].stage, all[1].stage, test.want, test.stage,
					test.next)
			}
			checkTable(t, l, all)
		})
	}
}

// challengesOf admits the challenges of a source for hosts, each a millisecond after the last.
func challengesOf(t *testing.T, l *table, now *time.Time, from string, hosts ...string) (all []*connection) {
	t.Helper()
	for _, name := range hosts {
		*now = now.Add(time.Millisecond)
		c := newTestConnection(t, netip.MustParseAddr(from))
		c.acceptedAt, c.hostname = *now, name
		if !isIn(l.admit(c, answering, false)) {
			t.Fatal("a challenge was not admitted")
		}
		all = append(all, c)
	}
	return all
}

// wantTurns ends one exchange after the other. The queued challenges must get the slots in order.
func wantTurns(t *testing.T, l *table, turns ...*connection) {
	t.Helper()
	for i, c := range turns {
		if c.stage != queued {
			t.Fatalf("number %d is in stage %d before its turn", i, c.stage)
		}
		if l.remove(l.all.lists[answering].First()); c.stage != answering {
			t.Fatalf("number %d is in stage %d in its turn", i, c.stage)
		}
	}
}

// TestTurns: the sources have their turns, and in each source its hosts. A challenge behind many of
// the same source for another host does not wait for them.
func TestTurns(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(40, 2)
	c := challengesOf(t, l, now, "192.0.2.1", "a", "a", "a", "a", "a", "b", "a", "b", "c")
	wantTurns(t, l, c[2], c[5], c[8], c[3], c[7], c[4], c[6])

	l, now = newTestTable(8, 0)
	c = challengesOf(t, l, now, "192.0.2.1", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a")
	c = append(c, challengesOf(t, l, now, "192.0.2.2", "a")...)
	c = append(c, challengesOf(t, l, now, "192.0.2.3", "a")...)
	wantTurns(t, l, c[8], c[10], c[11], c[9])

	l, now = newTestTable(40, 1)
	c = challengesOf(t, l, now, "192.0.2.1", "a", "a", "a")
	if l.setLimits(40, 2); c[1].stage != answering || c[2].stage != queued {
		t.Errorf("after the bound was raised: stages %d and %d", c[1].stage, c[2].stage)
	}
	if l.setLimits(40, 0); c[2].stage != answering {
		t.Errorf("without a bound: stage %d", c[2].stage)
	}
}

// TestExchangeEndsForAnother: while slots are short, the exchange that waited longest ends, of
// the busiest host if one is busy, and of the same source if that is at its bound.
func TestExchangeEndsForAnother(t *testing.T) {
	t.Parallel()
	numbered := func(n int) (all []string) {
		for i := range n {
			all = append(all, strconv.Itoa(i))
		}
		return all
	}
	for name, test := range map[string]struct {
		limit, perSource int
		first, second    []string // hosts of the challenges of two sources
		next             string   // host of another one of the second source
		enough           time.Duration
		want             int // which one ends
	}{
		"a busy host": {
			32, 0, []string{"slow"}, slices.Repeat([]string{"busy"}, 31), "api", minExchangeTime, 1,
		},
		"the busiest host": {
			32, 0, slices.Repeat([]string{"busy"}, 15), slices.Repeat([]string{"busiest"}, 17), "api", minExchangeTime, 15,
		},
		"the busiest host, by a source with far more slots": {
			32, 0, slices.Repeat([]string{"busy"}, 24), slices.Repeat([]string{"busy"}, 8), "busy", minExchangeTime, 0,
		},
		"a CA is not busy": {
			32, 0, numbered(30), []string{"api", "api"}, "api", minExchangeTime, 0,
		},
		"a busy host of the source": {
			64, 32, slices.Repeat([]string{"busy"}, 32), append([]string{"slow"}, slices.Repeat([]string{"busy"}, 31)...),
			"api", minExchangeTimeOfBusyHost, 33,
		},
		"many hosts of the source": {
			64, 32, slices.Repeat([]string{"busy"}, 32), numbered(32), "api", minExchangeTimeOfSource, 32,
		},
		"a burst of the source for many hosts": {64, 32, nil, numbered(37), "api", minExchangeTimeOfSource, 0},
		"as many hosts as slots of the source": {64, 16, nil, numbered(31), "api", 3 * minExchangeTime, 0},
		"more hosts than slots of the source":  {128, 16, nil, numbered(63), "api", minExchangeTime, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, now := newTestTable(test.limit, test.perSource)
			all := challengesOf(t, l, now, "192.0.2.1", test.first...)
			all = append(all, challengesOf(t, l, now, "192.0.2.2", test.second...)...)
			all = append(all, challengesOf(t, l, now, "192.0.2.2", test.next)...)
			old, next := all[test.want], all[len(all)-1].source.next()
			*now = old.since.Add(test.enough - time.Millisecond)
			if wait, short := l.claim(next); wait != time.Millisecond || short == "" || next.stage != queued {
				t.Fatalf("too early: wait %v for %q in stage %d", wait, short, next.stage)
			}
			*now = old.since.Add(test.enough)
			l.claim(next)
			for i, c := range all {
				if c.stage == evicted != (i == test.want) {
					t.Errorf("number %d is in stage %d", i, c.stage)
				}
			}
			checkTable(t, l, all)
		})
	}
}

// TestNextClaims: only the next challenge of a source ends an exchange of it. One that may not, because
// of its host, leaves the turn to another host.
func TestNextClaims(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(64, 32)
	all := challengesOf(t, l, now, "192.0.2.1", slices.Repeat([]string{"slow"}, 33)...)
	slow, api := all[32], challengesOf(t, l, now, "192.0.2.1", "api", "api")
	*now = now.Add(minExchangeTimeOfSource)
	for _, c := range []*connection{api[1], api[0], slow} { // it is the turn of slow
		if wait, short := l.claim(c); wait != slotTimeout || short != report.SourceLimit {
			t.Errorf("a challenge for %s: wait %v for %q", c.hostname, wait, short)
		}
	}
	l.claim(api[0])
	if slow.stage != queued || api[0].stage != answering || api[1].stage != queued || l.all.counts[evicted] != 1 {
		t.Errorf("stages %d, %d and %d", slow.stage, api[0].stage, api[1].stage)
	}
}

// TestOverloadEndsNoExchange: challenges beyond the slots wait for a slow ingress, and end no exchange
// for the same host, unless another source has far more slots. Else none would be answered.
func TestOverloadEndsNoExchange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, perSource, first, second int }{
		"all slots":           {32, 0, 0, 32},
		"slots of the source": {64, 32, 0, 32},
		"two sources":         {32, 0, 16, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, now := newTestTable(test.limit, test.perSource)
			all := challengesOf(t, l, now, "192.0.2.1", slices.Repeat([]string{"api"}, test.first)...)
			all = append(all, challengesOf(t, l, now, "192.0.2.2", slices.Repeat([]string{"api"}, test.second)...)...)
			next := challengesOf(t, l, now, "192.0.2.2", "api")[0]
			*now = now.Add(2 * minExchangeTimeOfSource)
			wait, short := l.claim(next)
			if wait != slotTimeout || short == "" || next.stage != queued || l.all.counts[evicted] > 0 {
				t.Errorf("wait %v for %q in stage %d; %v connections by stage", wait, short, next.stage, l.all.counts)
			}
			if l.remove(all[0]); next.stage != answering {
				t.Errorf("stage %d after another one has ended", next.stage)
			}
		})
	}
}

// TestNewRequestsAlwaysFindAPlace: although challenges fill all slots and the waiting room, a new
// connection gets a place. So a request that is not forwarded is answered.
func TestNewRequestsAlwaysFindAPlace(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"another source": "192.0.2.2", "the same source": "192.0.2.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, now := newTestTable(8, 6)
			all := challengesOf(t, l, now, "192.0.2.1", slices.Repeat([]string{"a"}, 10)...)
			for range 20 {
				*now = now.Add(time.Millisecond)
				c := newTestConnection(t, netip.MustParseAddr(from))
				c.acceptedAt = *now
				if a, _ := l.admit(c, readingHead, false); a != admitted || l.all.waiting() > l.room() {
					t.Fatalf("admission %d; %v connections by stage", a, l.all.counts)
				}
				l.remove(c)
			}
			if all[6].stage != evicted || all[7].stage != queued {
				t.Errorf("stages of the queue: %d and %d", all[6].stage, all[7].stage)
			}
		})
	}
}

// TestLingeringTakesNoPlace: a client that has its response and still sends gets no place that
// others have.
func TestLingeringTakesNoPlace(t *testing.T) {
	t.Parallel()
	l, now := newTestTable(2, 0)
	from := netip.MustParseAddr("192.0.2.1")
	answered := newTestConnection(t, from)
	l.admit(answered, answering, false)
	reads, lingers := newTestConnection(t, from), newTestConnection(t, from)
	reads.acceptedAt = *now
	l.admit(reads, readingHead, false)
	*now = now.Add(time.Minute)
	a, _ := l.admit(lingers, lingering, false)
	if a != rejected || l.startLingering(answered) || reads.stage != readingHead {
		t.Errorf("admission %d; %v connections by stage", a, l.all.counts)
	}
}

// TestAdmissionAllocatesNothing covers the case of free slots.
func TestAdmissionAllocatesNothing(t *testing.T) {
	l := newTable()
	l.setLimits(10, 10)
	c := newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
	l.sources[netip.Prefix{}], l.hosts["another"] = nil, nil // the runtime allocates with the first key
	if n := testing.AllocsPerRun(1000, func() {
		l.admit(c, readingHead, false)
		l.finishReading(c, true)
		l.remove(c)
	}); n > 0 {
		t.Errorf("%v allocations for each connection", n)
	}
}

func BenchmarkAdmission(b *testing.B) {
	l := newTable()
	l.setLimits(10, 10)
	c := newTestConnection(b, netip.MustParseAddr("192.0.2.1"))
	b.ReportAllocs()
	for b.Loop() {
		l.admit(c, readingHead, false)
		l.finishReading(c, true)
		l.remove(c)
	}
}

// BenchmarkEviction is the cost of a connection when all slots are taken.
func BenchmarkEviction(b *testing.B) {
	l := newTable()
	l.setLimits(1, 0)
	two := [2]*connection{
		newTestConnection(b, netip.MustParseAddr("192.0.2.1")),
		newTestConnection(b, netip.MustParseAddr("192.0.2.1")),
	}
	l.admit(two[0], readingHead, false)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		next, last := two[i&1], two[i&1^1]
		next.acceptedAt = last.acceptedAt.Add(time.Second)
		l.admit(next, readingHead, false)
		l.finishReading(last, false)
		l.remove(last)
	}
}

// TestRepeats: a request is repeated once a second for each host, while few others are in flight,
// and for few hosts at a time.
func TestRepeats(t *testing.T) {
	t.Parallel()
	start := time.Now()
	many := func(n int) map[string]time.Time {
		hosts := map[string]time.Time{}
		for i := range n {
			hosts[strconv.Itoa(i)] = start
		}
		return hosts
	}
	for name, test := range map[string]struct {
		before repeats
		after  time.Duration // since all requests that were repeated before
		want   bool
	}{
		"the first one":                {repeats{0, many(0)}, 0, true},
		"another host before":          {repeats{9, many(1)}, 0, true},
		"this host before":             {repeats{0, map[string]time.Time{"host": start}}, repeatInterval - 1, false},
		"this host a second before":    {repeats{0, map[string]time.Time{"host": start}}, repeatInterval, true},
		"ten in flight":                {repeats{10, many(1)}, time.Hour, false},
		"many hosts before":            {repeats{0, many(maxRepeatedHosts - 1)}, 0, true},
		"all hosts before":             {repeats{0, many(maxRepeatedHosts)}, repeatInterval - 1, false},
		"all hosts a second before":    {repeats{0, many(maxRepeatedHosts)}, repeatInterval, true},
		"ten in flight, of this host":  {repeats{10, map[string]time.Time{"host": start}}, 0, false},
		"a clock that was set back":    {repeats{0, map[string]time.Time{"host": start}}, -time.Hour, false},
		"nine in flight, a second ago": {repeats{9, map[string]time.Time{"host": start}}, repeatInterval, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, count := test.before, test.before.inFlight
			if got := r.begin("host", start.Add(test.after)); got != test.want {
				t.Errorf("repeated: %t, want %t", got, test.want)
			}
			if test.want {
				count++
			}
			if r.inFlight != count || len(r.hosts) > maxRepeatedHosts {
				t.Errorf("%d in flight, want %d; %d hosts", r.inFlight, count, len(r.hosts))
			}
		})
	}
}

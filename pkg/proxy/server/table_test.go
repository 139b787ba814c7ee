// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestSourceOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"64:ff9b::192.0.2.1", "64:ff9b::192.0.2.1", true},
		{"64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false},
		{"64:ff9b::192.0.2.1", "192.0.2.1", true},
		{"64:ff9b:0:0:1::1", "64:ff9b:0:0:2::1", true}, // outside the /96
		{"64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.2", true},
		{"::c000:201", "192.0.2.1", false},
		{"::1", "0.0.0.0", false},
	} {
		if got := sourceOf(netip.MustParseAddr(test.a)) == sourceOf(netip.MustParseAddr(test.b)); got != test.same {
			t.Errorf("%s and %s: one source %v", test.a, test.b, got)
		}
	}
}

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
			l := newTable()
			l.setLimits(limit, perSource)
			var idle, in []*connection
			for i := range 40 {
				idle = append(idle, newTestConnection(t, netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 7)})))
			}
			now := time.Now()
			for step := range 20_000 {
				now = now.Add(time.Second)
				if len(idle) > 0 && random.IntN(2) == 0 {
					c := idle[random.IntN(len(idle))]
					c.acceptedAt = now
					stages := []stage{readingHead, answering, lingering}
					if isIn(l.admit(c, stages[random.IntN(3)], !fixed && random.IntN(50) == 0)) {
						in, idle = append(in, c), without(idle, c)
					}
				} else if len(in) > 0 {
					c := in[random.IntN(len(in))]
					switch {
					case c.stage == readingHead, c.stage == evicted && random.IntN(2) == 0:
						l.finishReading(c, random.IntN(2) == 0)
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
			if l.all != (tally{}) || len(l.sources) != 0 {
				t.Errorf("in the end: %+v, %d sources", l.all, len(l.sources))
			}
		})
	}
}

func checkBounds(t *testing.T, l *table) {
	t.Helper()
	if active := l.all.slots + l.all.waiting; active > l.limit+maxEvicted {
		t.Fatalf("%d connections in flight besides the evicted ones, want at most %d", active, l.limit+maxEvicted)
	}
	for _, s := range l.sources {
		if s.slots > l.perSource {
			t.Fatalf("%d connections of one source, want at most %d", s.slots, l.perSource)
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
	all, of := tally{}, map[*source]tally{}
	inTable, inSource := map[*connectionList][]*connection{}, map[*connectionList][]*connection{}
	for _, c := range in {
		sum := of[c.source]
		switch {
		case c.stage == evicted:
			all.evicted++
			sum.evicted++
		case c.waiting:
			all.waiting++
			sum.waiting++
		case c.stage == queued:
			t.Fatal("a request within the bound waits for a slot")
		default:
			all.slots++
			sum.slots++
		}
		of[c.source] = sum
		list, own := (*connectionList)(nil), (*connectionList)(nil)
		switch c.stage {
		case readingHead:
			list, own = &l.reading, &c.source.reading
			if c.waiting {
				own = &c.source.late
			}
		case lingering:
			list, own = &l.lingering, &c.source.lingering
		case queued:
			own = &c.source.queue
		default:
		}
		if list != nil && !c.waiting {
			inTable[list] = append(inTable[list], c)
		}
		if own != nil {
			inSource[own] = append(inSource[own], c)
		}
	}
	if l.all != all {
		t.Fatalf("%+v in flight, want %+v", l.all, all)
	}
	if len(l.sources) != len(of) {
		t.Fatalf("%d sources, want %d", len(l.sources), len(of))
	}
	checkList(t, &l.reading, inTable)
	checkList(t, &l.lingering, inTable)
	for s, sum := range of {
		if s.tally != sum {
			t.Fatalf("%+v of a source, want %+v", s.tally, sum)
		}
		if s.queue.First() != nil && l.hasRoom(s) {
			t.Fatalf("a request waits, and %d of %d slots of its source are taken", s.slots, l.perSource)
		}
		for _, list := range []*connectionList{&s.reading, &s.late, &s.lingering, &s.queue} {
			checkList(t, list, inSource)
		}
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
	for name, test := range map[string]struct {
		limit, perSource int
		last             admission // when all heads have arrived
	}{
		"of all":        {3, 0, overloaded},
		"of its source": {3, 2, rejected}, // one of three waits beyond the bound
	} {
		t.Run(name, func(t *testing.T) {
			l := newTable()
			l.setLimits(test.limit, test.perSource)
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
			l.admit(c[3], readingHead, false)
			if c[0].stage != readingHead || c[1].stage != evicted || c[2].stage != readingHead || c[3].stage != readingHead {
				t.Fatalf("stages %d, %d, %d, %d", c[0].stage, c[1].stage, c[2].stage, c[3].stage)
			}
			sendByte(t, clients[3], c[3])
			if a, wait := l.admit(c[4], readingHead, false); a != test.last || a == overloaded && wait != unreadRetryDelay {
				t.Errorf("got %v, wait %v", a, wait)
			}
			if c[0].stage != readingHead || c[2].stage != readingHead || c[3].stage != readingHead {
				t.Errorf("stages %d, %d, %d", c[0].stage, c[2].stage, c[3].stage)
			}
		})
	}
}

// sendByte has the client send a byte and waits for its arrival.
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
	l := newTable()
	l.setLimits(1, 0)
	from := netip.MustParseAddr("192.0.2.1")
	var all []*connection
	for i := range maxEvicted + 1 {
		c := newTestConnection(t, from)
		c.acceptedAt = time.Unix(int64(i), 0)
		if a, _ := l.admit(c, readingHead, false); a != admitted {
			t.Fatalf("connection %d has to wait", i)
		}
		all = append(all, c)
	}
	c := newTestConnection(t, from)
	c.acceptedAt = time.Unix(maxEvicted+1, 0)
	if a, _ := l.admit(c, readingHead, false); a != overloaded || l.all.total() != maxEvicted+1 || !l.paused[c.worker] {
		t.Fatalf("%d in flight, the next one: %d", l.all.total(), a)
	}
	c.worker.resume.Expired = func() {}
	if l.finishReading(all[0], false) != rejected || all[0].evictionReason != report.Evicted {
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

// TestHeadOfEvictedConnection: a head that arrives after the eviction of its connection
// is served if another connection can be evicted, or waits for a slot of its source. If
// nothing else is possible, it keeps the place of an evicted connection.
func TestHeadOfEvictedConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit, perSource int
		others           stage // of the connection that was admitted in its place
		want, other      stage // of both
		active           int
	}{
		"another waits for its head":               {1, 0, readingHead, answering, evicted, 1},
		"another is being answered":                {1, 0, answering, answering, answering, 2},
		"another lingers":                          {1, 0, lingering, answering, evicted, 1},
		"another of its source waits for its head": {9, 1, readingHead, answering, readingHead, 2},
		"another of its source is being answered":  {9, 1, answering, queued, answering, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTable()
			l.setLimits(test.limit, test.perSource)
			var c [2]*connection
			for i := range c {
				c[i] = newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
				c[i].acceptedAt = time.Unix(int64(i), 0)
				l.admit(c[i], readingHead, false)
			}
			if test.perSource > 0 { // the second waits beyond the bound
				l.evict(c[0], report.SourceLimit)
				l.move(c[1], readingHead, false)
			}
			if test.others != readingHead {
				l.finishReading(c[1], true)
			}
			if test.others == lingering {
				l.startLingering(c[1])
			}
			if a := l.finishReading(c[0], true); a == rejected {
				t.Errorf("it must end for %q", c[0].evictionReason)
			}
			if c[0].stage != test.want || c[1].stage != test.other {
				t.Errorf("stages %d and %d, want %d and %d", c[0].stage, c[1].stage, test.want, test.other)
			}
			if active := l.all.slots + l.all.waiting; active != test.active {
				t.Errorf("%d connections are in flight besides the evicted ones, want %d", active, test.active)
			}
			checkTable(t, l, c[:])
		})
	}
}

// TestQueueOfSource: requests beyond the bound of their source get its slots in the order of
// their arrival. Half of all slots are for them. A newer one gets none before them.
func TestQueueOfSource(t *testing.T) {
	t.Parallel()
	l := newTable()
	l.setLimits(8, 2)
	var c [7]*connection
	for i := range c {
		c[i] = newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
		c[i].acceptedAt = time.Unix(int64(i), 0)
		a, _ := l.admit(c[i], answering, false)
		if want := [...]admission{admitted, admitted, waits, waits, waits, waits, rejected}[i]; a != want {
			t.Fatalf("connection %d: %d, want %d", i, a, want)
		}
	}
	other := newTestConnection(t, netip.MustParseAddr("192.0.2.2"))
	other.acceptedAt = time.Unix(9, 0)
	if a, _ := l.admit(other, answering, false); a != admitted {
		t.Errorf("another source: %d", a)
	}
	l.startLingering(c[0])
	if a, _ := l.admit(c[6], answering, false); a != waits || c[0].stage != evicted || c[2].stage != answering ||
		c[6].stage != queued {
		t.Errorf("a newer request: %d; stages %d, %d, %d", a, c[0].stage, c[2].stage, c[6].stage)
	}
	for i := range 4 {
		l.remove(c[i+1])
		if c[i+3].stage != answering {
			t.Errorf("connection %d is in stage %d after %d has ended", i+3, c[i+3].stage, i+1)
		}
	}
	l.setLimits(8, 1)
	a, _ := l.admit(c[1], answering, false)
	if l.setLimits(8, 0); a != waits || c[1].stage != answering {
		t.Errorf("without a bound: stage %d", c[1].stage)
	}
}

// TestEvictionsFreeSlots: a connection beyond the bound of its source, which waits for its head
// or lingers, has no slot of all. It is not evicted for one, since none would become free.
func TestEvictionsFreeSlots(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(l *table, c *connection){
		"waits for its head": func(*table, *connection) {},
		"lingers": func(l *table, c *connection) {
			l.finishReading(c, false) // it is refused
			l.startLingering(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTable()
			l.setLimits(2, 1)
			var c [4]*connection
			for i, from := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"} {
				c[i] = newTestConnection(t, netip.MustParseAddr(from))
				c[i].acceptedAt = time.Unix(int64(i), 0)
			}
			l.admit(c[0], answering, false)
			l.admit(c[1], readingHead, false) // beyond the bound
			finish(l, c[1])
			l.admit(c[2], answering, false)
			if a, _ := l.admit(c[3], readingHead, false); a != overloaded || c[1].stage == evicted || !c[1].waiting {
				t.Errorf("admission %d; the one beyond the bound is in stage %d", a, c[1].stage)
			}
			checkTable(t, l, c[:3])
			// One of the source may be evicted for the next one of the source.
			c[3].client = c[0].client
			if a, _ := l.admit(c[3], readingHead, false); a != admitted || c[1].stage != evicted ||
				c[1].evictionReason != report.SourceLimit || !c[3].waiting {
				t.Errorf("of its source: admission %d; stages %d and %d", a, c[1].stage, c[3].stage)
			}
			checkTable(t, l, c[:])
		})
	}
}

// TestAdmissionAllocatesNothing covers the case of free slots.
func TestAdmissionAllocatesNothing(t *testing.T) {
	l := newTable()
	l.setLimits(10, 10)
	c := newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
	l.sources[netip.Addr{}] = nil // the runtime allocates with the first key
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

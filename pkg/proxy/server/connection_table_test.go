// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestSourceKey(t *testing.T) {
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
		if got := sourceKeyOf(netip.MustParseAddr(test.a)) == sourceKeyOf(netip.MustParseAddr(test.b)); got != test.same {
			t.Errorf("%s and %s: one source %v", test.a, test.b, got)
		}
	}
}

// newTestConnection returns a connection without a goroutine.
func newTestConnection(tb testing.TB, from netip.Addr) *connection {
	tb.Helper()
	c, _ := newConnectionPair(tb, from)
	return c
}

// newConnectionPair returns such a connection and the client's end of it.
func newConnectionPair(tb testing.TB, from netip.Addr) (*connection, net.Conn) {
	tb.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1)); err != nil {
		tb.Fatal(err)
	}
	ln, err := tcp.NewListener(fd)
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	c := newConnection()
	if err := ln.Accept(&c.tcp); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = client.Close(), c.tcp.Close() })
	c.client = netip.AddrPortFrom(from, 1)
	return c, client
}

// TestConnectionTableCounts runs random operations, and compares the counts and
// lists after each step with a simple model.
func TestConnectionTableCounts(t *testing.T) {
	t.Parallel()
	const limit, perSource = 12, 4
	random := rand.New(rand.NewPCG(1, 2))
	l := newConnectionTable()
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
			if a := l.admit(c, random.IntN(50) == 0); a.maxWait == 0 && !a.rejected {
				in = append(in, c)
				idle = without(idle, c)
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
				in = without(in, c)
				idle = append(idle, c)
			}
		}
		if step%1000 == 999 {
			l.setLimits(1+random.IntN(limit), random.IntN(perSource))
		}
		checkConnectionTable(t, l, in)
	}
	for _, c := range in {
		l.remove(c)
	}
	if l.count != 0 || l.evicted != 0 || len(l.sources) != 0 {
		t.Errorf("in the end: %d in flight, %d leaving, %d sources", l.count, l.evicted, len(l.sources))
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

func checkConnectionTable(t *testing.T, l *connectionTable, in []*connection) {
	t.Helper()
	leaves := 0
	of := map[*source][2]int{} // all, evicted
	for _, c := range in {
		sums := of[c.source]
		sums[0]++
		if c.stage == evicted {
			leaves++
			sums[1]++
		}
		of[c.source] = sums
	}
	listed := 0
	for s, list := range map[stage]*connectionList{readingHead: l.reading, lingering: l.lingering, answering: l.busy} {
		list.forEach(func(c *connection) {
			listed++
			if c.stage != s && (s != answering || c.stage != evicted) {
				t.Errorf("a connection in stage %d among those of %d", c.stage, s)
			}
		})
	}
	if l.count != len(in) || listed != len(in) || l.evicted != leaves {
		t.Fatalf("%d in flight, %d listed, %d leaving; want %d and %d", l.count, listed, l.evicted, len(in), leaves)
	}
	delete(of, nil)
	if len(l.sources) != len(of) {
		t.Fatalf("%d sources, want %d", len(l.sources), len(of))
	}
	for s, sums := range of {
		if s.count != sums[0] || s.evicted != sums[1] {
			t.Fatalf("a source of %d, %d leaving; want %v", s.count, s.evicted, sums)
		}
	}
}

// TestUnreadHeadIsNotEvicted: a client whose head has arrived is not late, even if
// its goroutine is.
func TestUnreadHeadIsNotEvicted(t *testing.T) {
	t.Parallel()
	for name, perSource := range map[string]int{"of all": 0, "of its source": 2} {
		t.Run(name, func(t *testing.T) {
			l := newConnectionTable()
			l.setLimits(2, perSource)
			var c [4]*connection
			var clients [4]net.Conn
			for i := range c {
				c[i], clients[i] = newConnectionPair(t, netip.MustParseAddr("192.0.2.1"))
				c[i].acceptedAt = time.Unix(int64(i), 0)
			}
			l.admit(c[0], false)
			l.admit(c[1], false)
			sendByte(t, clients[0], c[0])
			l.admit(c[2], false)
			if c[0].stage != readingHead || c[1].stage != evicted || c[2].stage != readingHead {
				t.Fatalf("stages %d, %d, %d", c[0].stage, c[1].stage, c[2].stage)
			}
			// When all heads have arrived, none is evicted.
			sendByte(t, clients[2], c[2])
			a := l.admit(c[3], false)
			if perSource > 0 && !a.rejected || perSource == 0 && a.maxWait != unreadRetryDelay {
				t.Errorf("got %+v", a)
			}
			if c[0].stage != readingHead || c[2].stage != readingHead {
				t.Errorf("stages %d, %d", c[0].stage, c[2].stage)
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
	nstest.Await(t, "the byte comes", c.tcp.HasUnread)
}

// TestEvictionsAreBounded: while maxEvicted connections have not ended, none is
// evicted.
func TestEvictionsAreBounded(t *testing.T) {
	t.Parallel()
	l := newConnectionTable()
	l.setLimits(1, 0)
	from := netip.MustParseAddr("192.0.2.1")
	var all []*connection
	for i := range maxEvicted + 1 {
		c := newTestConnection(t, from)
		c.acceptedAt = time.Unix(int64(i), 0)
		if a := l.admit(c, false); a.maxWait != 0 {
			t.Fatalf("connection %d has to wait", i)
		}
		all = append(all, c)
	}
	c := newTestConnection(t, from)
	c.acceptedAt = time.Unix(maxEvicted+1, 0)
	a := l.admit(c, false)
	if a.maxWait == 0 || l.count != maxEvicted+1 {
		t.Fatalf("%d in flight, the next one waits %v", l.count, a.maxWait)
	}
	if reason, _ := l.finishReading(all[0], false); reason != report.Evicted {
		t.Errorf("the first leaves for %q", reason)
	}
	l.remove(all[0])
	select {
	case <-a.changed:
	default:
		t.Error("nobody was woken")
	}
	if a := l.admit(c, false); a.maxWait != 0 {
		t.Error("it still has to wait")
	}
}

// TestHeadOfEvictedConnection: a head that arrives after the eviction of its connection
// is served if another connection can be evicted, and the bounds hold in any case.
func TestHeadOfEvictedConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit, perSource int
		others           stage // of the connection that was admitted in its place
		reason           report.Rejection
	}{
		"another waits for its head":                {1, 0, readingHead, ""},
		"another is being answered":                 {1, 0, answering, report.Evicted},
		"another lingers":                           {1, 0, lingering, ""},
		"another of its source waits for its head":  {9, 1, readingHead, ""},
		"another of its source is being answered":   {9, 1, answering, report.SourceLimit},
		"the limit was reached before the eviction": {2, 1, answering, report.SourceLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newConnectionTable()
			l.setLimits(test.limit, test.perSource)
			var c [2]*connection
			for i := range c {
				c[i] = newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
				c[i].acceptedAt = time.Unix(int64(i), 0)
				l.admit(c[i], false)
			}
			if test.others != readingHead {
				l.finishReading(c[1], true)
			}
			if test.others == lingering {
				l.startLingering(c[1])
			}
			reason, changed := l.finishReading(c[0], true)
			if reason != test.reason || (changed != nil) != (reason != "") {
				t.Errorf("it must end for %q, want %q; a signal: %t", reason, test.reason, changed != nil)
			}
			if test.reason == "" && (c[0].stage != answering || c[1].stage != evicted) || test.reason != "" && c[0].stage != evicted {
				t.Errorf("stages %d and %d", c[0].stage, c[1].stage)
			}
			if active := l.count - l.evicted; active != 1 {
				t.Errorf("%d connections are in flight besides the evicted ones, want 1", active)
			}
			checkConnectionTable(t, l, c[:])
		})
	}
}

// TestCompleteHeadWaitsForSlot: an evicted connection with a complete head is served when
// another connection ends, and ends at the deadline of its head.
func TestCompleteHeadWaitsForSlot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline time.Time
		want     report.Rejection
	}{
		"another connection ends": {time.Now().Add(time.Hour), ""},
		"the deadline has passed": {time.Now(), report.Evicted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Settings{MaxConnections: 1}, nil, nil)
			var c [2]*connection
			for i := range c {
				c[i] = newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
				c[i].acceptedAt = time.Unix(int64(i), 0)
				s.connections.admit(c[i], false)
			}
			s.connections.finishReading(c[1], true)
			c[0].headDeadline = test.deadline
			got := make(chan report.Rejection)
			go func() { got <- s.finishReading(c[0], true) }()
			if test.want == "" {
				nstest.Await(t, "it waits for a slot", func() bool {
					s.connections.mu.Lock()
					defer s.connections.mu.Unlock()
					return s.connections.changed != nil
				})
				s.connections.remove(c[1])
			}
			if reason := <-got; reason != test.want {
				t.Errorf("it ended for %q, want %q", reason, test.want)
			}
		})
	}
}

// TestBoundsAlwaysHold runs random operations with fixed limits.
func TestBoundsAlwaysHold(t *testing.T) {
	t.Parallel()
	const limit, perSource = 6, 3
	random := rand.New(rand.NewPCG(3, 4))
	l := newConnectionTable()
	l.setLimits(limit, perSource)
	var idle, in []*connection
	for i := range 30 {
		idle = append(idle, newTestConnection(t, netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 4)})))
	}
	now := time.Unix(0, 0)
	for range 20_000 {
		now = now.Add(time.Second)
		if len(idle) > 0 && random.IntN(2) == 0 {
			c := idle[random.IntN(len(idle))]
			c.acceptedAt = now
			if a := l.admit(c, false); a.maxWait == 0 && !a.rejected {
				in, idle = append(in, c), without(idle, c)
			}
		} else if len(in) > 0 {
			c := in[random.IntN(len(in))]
			ends := c.stage == answering || c.stage == lingering
			if !ends {
				reason, _ := l.finishReading(c, random.IntN(4) > 0)
				ends = reason != ""
			}
			if ends {
				l.remove(c)
				in, idle = without(in, c), append(idle, c)
			}
		}
		if active := l.count - l.evicted; active > limit {
			t.Fatalf("%d connections in flight besides the evicted ones, want at most %d", active, limit)
		}
		for _, s := range l.sources {
			if s.count-s.evicted > perSource {
				t.Fatalf("%d connections of one source, want at most %d", s.count-s.evicted, perSource)
			}
		}
	}
}

// TestAdmissionAllocatesNothing covers the case of free slots.
func TestAdmissionAllocatesNothing(t *testing.T) {
	l := newConnectionTable()
	l.setLimits(10, 10)
	c := newTestConnection(t, netip.MustParseAddr("192.0.2.1"))
	l.sources[sourceKey{}] = nil // the runtime allocates with the first key
	if n := testing.AllocsPerRun(1000, func() {
		l.admit(c, false)
		l.finishReading(c, true)
		l.remove(c)
	}); n > 0 {
		t.Errorf("%v allocations for each connection", n)
	}
}

func BenchmarkAdmission(b *testing.B) {
	l := newConnectionTable()
	l.setLimits(10, 10)
	c := newTestConnection(b, netip.MustParseAddr("192.0.2.1"))
	b.ReportAllocs()
	for b.Loop() {
		l.admit(c, false)
		l.finishReading(c, true)
		l.remove(c)
	}
}

// BenchmarkEviction is the cost of a connection when all slots are taken.
func BenchmarkEviction(b *testing.B) {
	l := newConnectionTable()
	l.setLimits(1, 0)
	two := [2]*connection{newTestConnection(b, netip.MustParseAddr("192.0.2.1")), newTestConnection(b, netip.MustParseAddr("192.0.2.1"))}
	l.admit(two[0], false)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		next, last := two[i&1], two[i&1^1]
		next.acceptedAt = last.acceptedAt.Add(time.Second)
		l.admit(next, false)
		l.finishReading(last, false)
		l.remove(last)
	}
}

// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startLoop runs a loop until the test ends.
func startLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

// on runs f on the thread of the loop and waits for its end.
func on(l *Loop, f func()) {
	done := make(chan struct{})
	l.Post(func() {
		defer close(done)
		f()
	})
	<-done
}

// TestWheel sets, moves and stops random timers. Each that is set fires once, not before its
// time, and by the first advance after it.
func TestWheel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	l := &Loop{}
	now := time.Unix(0, 0)
	l.timers.begin = now
	var timers [50]Timer
	var due [len(timers)]time.Time // zero: stopped
	fired := 0
	for range 20_000 {
		i := random.IntN(len(timers))
		switch random.IntN(4) {
		case 0:
			l.StopTimer(&timers[i])
			due[i] = time.Time{}
		case 1, 2:
			due[i] = now.Add(time.Duration(random.Int64N(int64(5 * time.Second))))
			timers[i].Expired = func() {
				if due[i].IsZero() || now.Before(due[i]) {
					t.Fatalf("timer %d fires at %v, want %v", i, now, due[i])
				}
				due[i] = time.Time{}
				fired++
			}
			l.SetTimer(&timers[i], due[i])
		default:
			if wait := l.timers.next(now, time.Hour); random.IntN(2) == 0 && wait < time.Minute {
				now = now.Add(wait)
			} else {
				now = now.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
			}
			l.timers.advance(now)
			set := 0
			for i, at := range due {
				if !at.IsZero() {
					set++
				}
				if !at.IsZero() && now.Sub(at) > 2*tick {
					t.Fatalf("timer %d has not fired at %v, %v after its time", i, now, now.Sub(at))
				}
			}
			held := 0
			for i := range l.timers.slots {
				for range l.timers.slots[i].Backward {
					held++
				}
			}
			if held != set {
				t.Fatalf("%d timers are held, want %d", held, set)
			}
		}
	}
	if fired < 1000 {
		t.Errorf("%d timers fired", fired)
	}
}

// TestTimerThatSetsAnother: a timer can set itself and others while it fires.
func TestTimerThatSetsAnother(t *testing.T) {
	t.Parallel()
	l := startLoop(t)
	fired := make(chan int, 3)
	var first, second Timer
	on(l, func() {
		first.Expired = func() {
			fired <- 1
			first.Expired = func() { fired <- 2 }
			l.SetTimer(&first, l.Now())
			second.Expired = func() { fired <- 3 }
			l.SetTimer(&second, l.Now().Add(time.Hour))
			l.StopTimer(&second)
		}
		l.SetTimer(&first, l.Now())
	})
	if got := []int{<-fired, <-fired}; !slices.Equal(got, []int{1, 2}) {
		t.Errorf("fired %v", got)
	}
}

// readyFunc is a handler.
type readyFunc func(events uint32)

func (f readyFunc) Ready(events uint32) { f(events) }

// TestWatch reports bytes, the end, and nothing for a closed descriptor.
func TestWatch(t *testing.T) {
	t.Parallel()
	l := startLoop(t)
	pair := socketPair(t)
	var err error
	events := make(chan uint32, 8)
	on(l, func() { err = l.Watch(pair[0], readyFunc(func(e uint32) { events <- e })) })
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e&unix.EPOLLOUT == 0 || e&Readable != 0 {
		t.Errorf("at first: %x", e)
	}
	if HasUnread(pair[0]) {
		t.Error("bytes before they were sent")
	}
	if _, err := Write(pair[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e&unix.EPOLLIN == 0 || e&Closed != 0 || !HasUnread(pair[0]) {
		t.Errorf("after a byte: %x", e)
	}
	Close(pair[1])
	if e := <-events; e&Closed == 0 {
		t.Errorf("after the end: %x", e)
	}
	on(l, func() { l.Close(pair[0]) })
}

// socketPair returns two connected sockets.
func socketPair(t *testing.T) (pair [2]int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestPostRunsAfterEvents: the handlers of events that happened before Post come before
// its function, unless the loop is behind. It then reports so.
func TestPostRunsAfterEvents(t *testing.T) {
	t.Parallel()
	for name, connections := range map[string]int{"all are fetched": maxEvents - 2, "the loop is behind": maxEvents + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLoop(t)
			read, before, behind := 0, 0, false
			done := make(chan struct{})
			var pairs [][2]int
			for range connections {
				pairs = append(pairs, socketPair(t))
			}
			on(l, func() {
				for _, pair := range pairs {
					_, werr := Write(pair[1], []byte("x"))
					err := errors.Join(werr, l.Watch(pair[0], readyFunc(func(events uint32) {
						if events&Readable != 0 {
							read++
						}
					})))
					if err != nil {
						t.Error(err)
					}
				}
				l.Post(func() {
					defer close(done)
					before, behind = read, l.Behind()
				})
			})
			<-done
			if behind != (connections > maxEvents) || !behind && before != connections {
				t.Errorf("%d of %d handlers were called before; behind: %t", before, connections, behind)
			}
			on(l, func() {
				for _, pair := range pairs {
					l.Close(pair[0])
					Close(pair[1])
				}
			})
		})
	}
}

// TestStaleEvent: a handler closes the descriptor of another event that was fetched at the
// same time, and its number is given to the next one at once, which does not get the event.
func TestStaleEvent(t *testing.T) {
	// Not parallel: another test would take the number that is free for a moment.
	l := startLoop(t)
	pairs := [3][2]int{socketPair(t), socketPair(t), socketPair(t)}
	// Either of the first two can come first. It replaces the other one by the third.
	replaced, stale := make(chan error, 1), make(chan uint32, 8)
	handler := func(other int) Handler {
		return readyFunc(func(events uint32) {
			if events&Readable == 0 || len(replaced) > 0 {
				return
			}
			l.Close(other)
			number, err := unix.FcntlInt(uintptr(pairs[2][0]), unix.F_DUPFD_CLOEXEC, other)
			if err == nil && number != other {
				err = errors.New("another number was free")
			}
			replaced <- errors.Join(err, l.Watch(number, readyFunc(func(events uint32) { stale <- events })))
		})
	}
	on(l, func() {
		for i := range 2 {
			_, werr := Write(pairs[i][1], []byte("x"))
			if err := errors.Join(werr, l.Watch(pairs[i][0], handler(pairs[1-i][0]))); err != nil {
				t.Error(err)
			}
		}
	})
	on(l, func() {
		if len(replaced) == 0 {
			t.Error("the events were not fetched")
		} else if err := <-replaced; err != nil {
			t.Error(err)
		}
	})
	if events := <-stale; events&Readable != 0 {
		t.Errorf("the next one got the event %x", events)
	}
	on(l, func() {
		for _, pair := range pairs {
			l.Close(pair[0])
			Close(pair[1])
		}
	})
}

// TestSharedListener: several loops accept each connection once.
func TestSharedListener(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 64); err != nil {
		t.Fatal(err)
	}
	const connections = 50
	accepted := make(chan string, connections)
	loops := [2]*Loop{startLoop(t), startLoop(t)}
	for _, l := range loops {
		on(l, func() {
			err = l.WatchShared(fd, readyFunc(func(uint32) {
				if got, remote, err := Accept(fd); err == nil {
					accepted <- remote.String()
					Close(got)
				}
			}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want, got := map[string]bool{}, map[string]bool{}
	for range connections {
		c, err := net.Dial("tcp", LocalAddr(fd).String())
		if err != nil {
			t.Fatal(err)
		}
		want[c.LocalAddr().String()] = true
		got[<-accepted] = true
		_ = c.Close()
	}
	if len(got) != connections || len(want) != connections {
		t.Errorf("%d connections accepted, want %d", len(got), len(want))
	}
	for _, l := range loops {
		on(l, func() { l.Unwatch(fd) })
	}
	Close(fd)
}

// TestConnect has one address that accepts, and one that refuses.
func TestConnect(t *testing.T) {
	t.Parallel()
	l := startLoop(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := ln.Addr().(*net.TCPAddr).AddrPort()
	attempt := func() error {
		ready, failed := make(chan struct{}, 8), make(chan error, 1)
		var fd int
		on(l, func() {
			var err error
			if fd, err = Connect(to, 8<<10); err == nil {
				err = l.Watch(fd, readyFunc(func(uint32) { ready <- struct{}{} }))
			}
			failed <- err
		})
		if err := <-failed; err != nil {
			return err
		}
		<-ready
		defer on(l, func() { l.Close(fd) })
		return ConnectResult(fd)
	}
	if err := attempt(); err != nil {
		t.Errorf("a listener: %v", err)
	}
	_ = ln.Close()
	if err := attempt(); err != unix.ECONNREFUSED { //nolint:errorlint // the number itself
		t.Errorf("no listener: %v", err)
	}
}

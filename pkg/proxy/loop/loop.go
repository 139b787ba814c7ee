// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxEvents = 64
	// beatInterval is the time between two reports that the loop runs.
	beatInterval = 5 * time.Second
	// briefWait is the first part of a wait of a busy loop, which the scheduler does not see. It
	// is above the time between two requests at low load: with a shorter one, the kernel would
	// set the clock's next interrupt for each wait.
	briefWait = 3 * time.Millisecond
	// busyEvents is the number of events without an idle wait that make a loop busy. A request
	// has up to ten.
	busyEvents = 32
	// idleWait is the wait after which a loop is not busy.
	idleWait = 100 * time.Millisecond
)

// Readiness of a descriptor. It is a hint: a handler must expect that a read or write
// would block.
const (
	// Readable means bytes, the end or an error.
	Readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	// Closed means that the peer sends nothing more.
	Closed = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

// watch is a handler and the number of the watch, which the kernel returns with each event:
// the event of a descriptor that was closed is not for the next one with its number.
type watch struct {
	Handler

	number int32
}

// Handler is called on the thread of its loop.
type Handler interface {
	Ready(events uint32)
}

// Loop calls handlers for ready descriptors, expired timers and posted functions. Except
// for Post, its methods may be called only on its own thread, or before Run.
type Loop struct {
	epoll, eventFD int
	handlers       []watch // by descriptor
	events         [maxEvents]unix.EpollEvent
	timers         wheel
	now            time.Time

	// While the loop is idle, a second epoll instance watches the first one, and Go's network
	// poller the second one. See sleep.
	outer     int
	outerFile *os.File // closes outer
	outerConn syscall.RawConn

	recent  int         // events since the last idle wait, at most busyEvents
	behind  bool        // the last fetch was full
	waiting atomic.Bool // Post must end the wait
	mu      sync.Mutex
	posted  []func()
	running []func() // posted before the last fetch; the next posted reuses their memory
}

// New returns a loop. Run closes its descriptors.
func New() (*Loop, error) {
	l := &Loop{now: time.Now()}
	l.timers.begin = l.now
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot create an epoll instance: %w", err)
	}
	if l.eventFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create an event descriptor: %w", err), unix.Close(l.epoll))
	}
	if l.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		err = unix.SetNonblock(l.outer, true) // Go's network poller takes only such descriptors
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create an epoll instance: %w", err)
	}
	l.outerFile = os.NewFile(uintptr(l.outer), "epoll")
	if l.outerConn, err = l.outerFile.SyscallConn(); err != nil {
		return nil, fmt.Errorf("cannot use an epoll instance: %w", err)
	}
	// It only ends a wait. Its counter is never read: each write is an event of its own (EPOLLET).
	return l, l.Watch(l.eventFD, nil)
}

// Watch reports each change of a descriptor to h: edge-triggered, in both directions.
// Closing the descriptor ends it.
func (l *Loop) Watch(fd int, h Handler) error {
	return l.watch(fd, h, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

// WatchShared reports to h while connections wait on a listening socket that several loops
// share. Under load, the kernel wakes one loop for each connection. Idle loops all wake, and
// one accepts it.
func (l *Loop) WatchShared(fd int, h Handler) error {
	return l.watch(fd, h, unix.EPOLLIN|unix.EPOLLEXCLUSIVE)
}

func (l *Loop) watch(fd int, h Handler, events uint32) error {
	for fd >= len(l.handlers) {
		l.handlers = append(l.handlers, make([]watch, max(64, len(l.handlers)))...)
	}
	number := l.handlers[fd].number + 1
	event := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: number} //nolint:gosec // a descriptor
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("cannot watch a descriptor: %w", err)
	}
	l.handlers[fd] = watch{h, number}
	return nil
}

// Unwatch ends WatchShared.
func (l *Loop) Unwatch(fd int) {
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	l.drop(fd)
}

// Close closes a descriptor, watched or not. An event that was fetched before is ignored.
func (l *Loop) Close(fd int) {
	l.drop(fd)
	Close(fd)
}

func (l *Loop) drop(fd int) {
	if fd < len(l.handlers) {
		l.handlers[fd].Handler = nil
	}
}

// Now returns the time at which the current events were fetched.
func (l *Loop) Now() time.Time { return l.now }

// Behind reports whether the last fetch may have left events that happened before it.
func (l *Loop) Behind() bool { return l.behind }

// Post runs f on the thread of the loop, after the handlers of all events that happened
// before, unless the loop is Behind. It may be called from any goroutine.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	if l.waiting.CompareAndSwap(true, false) { // the others rely on this wake
		_, _ = Write(l.eventFD, binary.NativeEndian.AppendUint64(make([]byte, 0, 8), 1))
	}
}

// Run runs the loop until ctx is done. It calls beat every beatInterval.
func (l *Loop) Run(ctx context.Context, beat func()) error {
	runtime.LockOSThread() // its events stay in the caches of one processor
	defer runtime.UnlockOSThread()
	defer func() { _, _, _ = unix.Close(l.epoll), unix.Close(l.eventFD), l.outerFile.Close() }()
	defer context.AfterFunc(ctx, func() { l.Post(func() {}) })()
	nextBeat := time.Now()
	for ctx.Err() == nil {
		n, err := l.wait(nextBeat)
		if err != nil {
			return err
		}
		l.now, l.behind = time.Now(), n == maxEvents
		for _, event := range l.events[:n] {
			if w := l.handlers[event.Fd]; w.Handler != nil && w.number == event.Pad {
				w.Ready(event.Events)
			}
		}
		for i, f := range l.running {
			f()
			l.running[i] = nil
		}
		l.timers.advance(l.now)
		if !l.now.Before(nextBeat) {
			nextBeat = l.now.Add(beatInterval)
			beat()
		}
	}
	return nil
}

// wait fetches events and what was posted before, until a time at most, and returns the number
// of events. A busy loop begins with a brief wait in which most events come. Go's network poller
// would take a fifth more CPU time under load, because it waits for the epoll instance beside it.
func (l *Loop) wait(until time.Time) (n int, err error) {
	l.waiting.Store(true)
	defer l.waiting.Store(false)
	l.mu.Lock()
	l.posted, l.running = l.running[:0], l.posted
	l.mu.Unlock()
	limit := time.Duration(0)
	if len(l.running) == 0 {
		limit = l.timers.next(l.now, max(0, until.Sub(l.now)))
	}
	brief := time.Duration(0)
	if l.recent >= busyEvents {
		brief = min(limit, briefWait)
	}
	if brief > 0 || limit == 0 {
		n, err = l.fetch(brief)
	}
	if n == 0 && err == nil && limit > brief {
		n, err = l.sleep(limit - brief)
	}
	l.recent = min(l.recent+n, busyEvents)
	return n, err
}

// fetch waits for events in a call that the scheduler does not see.
func (l *Loop) fetch(limit time.Duration) (int, error) {
	events := uintptr(unsafe.Pointer(&l.events)) //nolint:gosec // epoll_pwait(2) takes a pointer; l is on the heap, and stays
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), events, maxEvents, milliseconds(limit), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR: // by a signal of the runtime
		return 0, nil
	default:
		return 0, fmt.Errorf("cannot wait for events: %w", errno)
	}
}

// sleep waits for events in Go's network poller. In a system call of its own, the thread would
// keep its processor of the scheduler, whose monitor then wakes some sixty times in 10 ms.
func (l *Loop) sleep(limit time.Duration) (n int, err error) {
	event := unix.EpollEvent{Events: unix.EPOLLIN}
	if unix.EpollCtl(l.outer, unix.EPOLL_CTL_ADD, l.epoll, &event) != nil {
		return l.fetch(limit) // this user has no watch left (fs.epoll.max_user_watches)
	}
	begin := time.Now()
	if err := l.outerFile.SetReadDeadline(begin.Add(limit)); err != nil {
		return 0, fmt.Errorf("cannot limit a wait for events: %w", err)
	}
	readErr := l.outerConn.Read(func(uintptr) bool {
		n, err = l.fetch(0)
		return n > 0 || err != nil
	})
	if readErr != nil && !errors.Is(readErr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, fmt.Errorf("cannot wait for events: %w", readErr))
	}
	if time.Since(begin) >= idleWait {
		l.recent = 0
	}
	return n, errors.Join(err, unix.EpollCtl(l.outer, unix.EPOLL_CTL_DEL, l.epoll, nil))
}

// milliseconds rounds up.
func milliseconds(d time.Duration) uintptr {
	return uintptr((d + time.Millisecond - 1) / time.Millisecond) //nolint:gosec // from 0 to maxWait
}

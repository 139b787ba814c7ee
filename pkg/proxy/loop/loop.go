// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxEvents = 64
	// maxWait bounds a wait without events, so that the loop reports that it runs.
	maxWait = time.Second
	// briefWait is the first part of a wait. A signal of garbage collection ends it. It is
	// above the time between two requests at low load: a shorter one would have the kernel
	// set the clock's next interrupt for each wait. After 10 ms the scheduler sends signals.
	briefWait = 3 * time.Millisecond
)

// Readiness of a descriptor. It is a hint: a handler must expect that a read or write
// would block.
const (
	// Readable means bytes, the end or an error.
	Readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	// Closed means that the peer sends nothing more.
	Closed = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

const (
	bothDirections = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	isFirst        = 1 // in the part of the event that the kernel returns unchanged
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

	waiting atomic.Bool // Post must end the wait
	mu      sync.Mutex
	posted  []func()
	running []func() // the memory of the next posted
}

// New returns a loop. Run closes its descriptors.
func New() (*Loop, error) {
	l := &Loop{now: time.Now()}
	l.timers.init(l.now)
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot create an epoll instance: %w", err)
	}
	if l.eventFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create an event descriptor: %w", err), unix.Close(l.epoll))
	}
	return l, l.Watch(l.eventFD, (*wakeups)(l))
}

// wakeups ends a wait. The counter of the descriptor is never read: each write is an
// event of its own (EPOLLET).
type wakeups Loop

func (*wakeups) Ready(uint32) {}

// Watch reports each change of a descriptor to h: edge-triggered, in both directions.
// Closing the descriptor ends it.
func (l *Loop) Watch(fd int, h Handler) error {
	return l.addEvent(fd, h, unix.EpollEvent{Events: bothDirections})
}

// WatchFirst is Watch for a handler that comes before the other handlers of events that were
// fetched at the same time.
func (l *Loop) WatchFirst(fd int, h Handler) error {
	return l.addEvent(fd, h, unix.EpollEvent{Events: bothDirections, Pad: isFirst})
}

// WatchShared reports to h while a listening socket, which several loops share, has
// connections. The kernel wakes one loop for each.
func (l *Loop) WatchShared(fd int, h Handler) error {
	return l.addEvent(fd, h, unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE})
}

func (l *Loop) addEvent(fd int, h Handler, event unix.EpollEvent) error {
	for fd >= len(l.handlers) {
		l.handlers = append(l.handlers, make([]watch, max(64, len(l.handlers)))...)
	}
	number := (l.handlers[fd].number + 1) & (1<<30 - 1)
	event.Pad |= number << 1
	event.Fd = int32(fd) //nolint:gosec // a descriptor
	if errno := epollControl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); errno != 0 {
		return fmt.Errorf("cannot watch a descriptor: %w", errno)
	}
	l.handlers[fd] = watch{h, number}
	return nil
}

// Unwatch ends WatchShared.
func (l *Loop) Unwatch(fd int) {
	_ = epollControl(l.epoll, unix.EPOLL_CTL_DEL, fd, &unix.EpollEvent{})
	l.Drop(fd)
}

// Drop drops the handler of a closed descriptor. An event that was fetched before is
// ignored.
func (l *Loop) Drop(fd int) {
	if fd < len(l.handlers) {
		l.handlers[fd].Handler = nil
	}
}

// Now returns the time at which the current events were fetched.
func (l *Loop) Now() time.Time { return l.now }

// Post runs f on the thread of the loop. It may be called from any goroutine.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	if l.waiting.Load() {
		wake(l.eventFD)
	}
}

// Run runs the loop until ctx is done. It calls beat at least once in two seconds.
func (l *Loop) Run(ctx context.Context, beat func()) error {
	runtime.LockOSThread() // its events stay in the caches of one processor
	defer runtime.UnlockOSThread()
	defer func() { _, _ = unix.Close(l.epoll), unix.Close(l.eventFD) }()
	defer context.AfterFunc(ctx, func() { l.Post(func() {}) })()
	var lastBeat time.Time
	for ctx.Err() == nil {
		n, err := l.wait()
		if err != nil {
			return err
		}
		l.now = time.Now()
		l.handle(l.events[:n], isFirst)
		l.handle(l.events[:n], 0)
		l.runPosted()
		l.timers.advance(l.now)
		if l.now.Sub(lastBeat) >= maxWait {
			lastBeat = l.now
			beat()
		}
	}
	return nil
}

// handle calls the handlers of the events that are marked first, or of the others.
func (l *Loop) handle(events []unix.EpollEvent, first int32) {
	for i := range events {
		event := &events[i]
		if event.Pad&isFirst != first {
			continue
		}
		if w := l.handlers[event.Fd]; w.Handler != nil && w.number == event.Pad>>1 {
			w.Ready(event.Events)
		}
	}
}

// wait returns the number of events. It first waits for a short time in a call that the
// scheduler does not see, in which most events come under load. The scheduler's monitor
// thread would look every 20 µs for a loop that waits, which takes a tenth of the proxy's
// time. A signal of garbage collection ends that call.
func (l *Loop) wait() (int, error) {
	l.waiting.Store(true)
	defer l.waiting.Store(false)
	most := time.Duration(0) // events are fetched too, so that they cannot be starved
	if !l.hasPosted() {
		most = l.timers.next(l.now, maxWait)
	}
	n, errno := epollWaitBriefly(l.epoll, &l.events, min(most, briefWait))
	if n == 0 && errno == 0 && most > briefWait {
		n, errno = epollWait(l.epoll, &l.events, most-briefWait)
	}
	if errno == unix.EINTR { // by a signal of the runtime
		return 0, nil
	}
	return n, waitError(errno)
}

func waitError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return fmt.Errorf("cannot wait for events: %w", errno)
}

func (l *Loop) hasPosted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.posted) > 0
}

// runPosted runs what was posted until now. What that posts runs in the next round.
func (l *Loop) runPosted() {
	l.mu.Lock()
	l.posted, l.running = l.running[:0], l.posted
	l.mu.Unlock()
	for i, f := range l.running {
		f()
		l.running[i] = nil
	}
}

func epollControl(epoll, operation, fd int, event *unix.EpollEvent) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(operation), uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0) //nolint:gosec // epoll_ctl(2) takes a pointer
	return errno
}

// epollWaitBriefly waits for events. The scheduler does not see the call.
func epollWaitBriefly(epoll int, events *[maxEvents]unix.EpollEvent, timeout time.Duration) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(events)), maxEvents, milliseconds(timeout), 0, 0) //nolint:gosec // epoll_pwait(2) takes a pointer
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// epollWait waits for events. The scheduler sees the call: it neither holds up garbage
// collection nor keeps a processor.
func epollWait(epoll int, events *[maxEvents]unix.EpollEvent, timeout time.Duration) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(events)), maxEvents, milliseconds(timeout), 0, 0) //nolint:gosec // epoll_pwait(2) takes a pointer
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// milliseconds rounds up.
func milliseconds(d time.Duration) uintptr {
	return uintptr((d + time.Millisecond - 1) / time.Millisecond) //nolint:gosec // from 0 to maxWait
}

// wake adds 1 to the counter of an event descriptor.
func wake(eventFD int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = Write(eventFD, one[:])
}

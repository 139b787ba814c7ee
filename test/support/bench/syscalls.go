// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// callNames returns the system calls that are also counted one by one, as the kernel's
// tracepoints name them.
func callNames() []string {
	return []string{
		"accept4", "clock_gettime", "close", "connect", "epoll_ctl", "epoll_pwait", "epoll_wait", "fcntl", "futex",
		"getpeername", "getsockname", "getsockopt", "ioctl", "madvise", "nanosleep", "ppoll", "read", "readv", "recvfrom",
		"recvmsg", "rt_sigprocmask", "rt_sigreturn", "sched_yield", "sendmsg", "sendto", "setsockopt", "shutdown", "socket", "splice", "tgkill", "write", "writev",
	}
}

// allCalls is the name of the tracepoint of every system call.
const allCalls = ""

// calls has numbers of system calls by name. allCalls has all of them.
type calls map[string]float64

// tracepoints has the IDs of tracepoints by name of the system call.
type tracepoints map[string]uint64

// findTracepoints reads the IDs from tracefs. Where it is not mounted, it is mounted below
// folder for the moment.
func findTracepoints(folder string) (found tracepoints, err error) {
	const usual = "/sys/kernel/tracing"
	if _, err := os.Stat(filepath.Join(usual, "events")); err == nil {
		return readTracepoints(usual)
	}
	at := filepath.Join(folder, "tracefs")
	if err := os.Mkdir(at, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for tracefs: %w", err)
	}
	if err := unix.Mount("tracefs", at, "tracefs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mount tracefs: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(at, 0)) }()
	return readTracepoints(at)
}

func readTracepoints(tracefs string) (tracepoints, error) {
	id := func(event string) (uint64, error) {
		text, err := os.ReadFile(filepath.Join(tracefs, "events", event, "id"))
		if err != nil {
			return 0, fmt.Errorf("read the ID of a tracepoint: %w", err)
		}
		return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	found := tracepoints{}
	var err error
	if found[allCalls], err = id("raw_syscalls/sys_enter"); err != nil {
		return nil, err
	}
	for _, name := range callNames() {
		switch n, err := id("syscalls/sys_enter_" + name); {
		case err == nil:
			found[name] = n
		case !errors.Is(err, fs.ErrNotExist): // not on every architecture
			return nil, err
		}
	}
	return found, nil
}

// callCounter counts the system calls of processes, of their threads, and of those that
// they start later (perf_event_open(2)). Unlike ptrace, it does not stop them.
type callCounter struct {
	files map[string][]int // descriptors by name
}

// countCalls starts to count for a process and its descendants.
func countCalls(points tracepoints, pid int) (*callCounter, error) {
	processes, err := processTree(pid)
	if err != nil {
		return nil, err
	}
	c := &callCounter{files: map[string][]int{}}
	for id := range processes {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", id))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("list threads: %w", err), c.close())
		}
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			if err == nil {
				err = c.add(points, thread)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("count the system calls of %s: %w", path, err), c.close())
			}
		}
	}
	return c, nil
}

func (c *callCounter) add(points tracepoints, thread int) error {
	for name, point := range points {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: point, Bits: unix.PerfBitInherit}
		attr.Size = uint32(binary.Size(attr)) //nolint:gosec // a constant below 200
		fd, err := unix.PerfEventOpen(&attr, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) {
			return nil // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("perf_event_open: %w", err)
		}
		c.files[name] = append(c.files[name], fd)
	}
	return nil
}

// read returns the numbers so far.
func (c *callCounter) read() (calls, error) {
	out := calls{}
	for name, files := range c.files {
		for _, fd := range files {
			var value [8]byte
			if n, err := unix.Read(fd, value[:]); err != nil || n != len(value) {
				return nil, fmt.Errorf("read a counter of system calls: %d bytes, %w", n, err)
			}
			out[name] += float64(binary.NativeEndian.Uint64(value[:]))
		}
	}
	return out, nil
}

func (c *callCounter) close() error {
	var err error
	for _, files := range c.files {
		for _, fd := range files {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

// measureCalls counts the system calls of every proxy, by number of connections. It is
// separate from the comparison, because counting slows a proxy.
func (r *rig) measureCalls(ctx context.Context, all []proxy) (map[string]map[int]calls, error) {
	points, err := findTracepoints(r.client.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the kernel's tracepoints of system calls (--calls=false skips them): %w", err)
	}
	out := map[string]map[int]calls{}
	for i, d := range all {
		if out[d.key], err = r.callsOf(ctx, d, points, (i+1)*100); err != nil {
			return nil, fmt.Errorf("system calls of %s: %w", d.name, err)
		}
		for _, connections := range r.Connections {
			r.logf("system calls of %s, %s: %s", d.name, counted(connections), out[d.key][connections].describe())
		}
	}
	return out, nil
}

func (r *rig) callsOf(ctx context.Context, d proxy, points tracepoints, seed int) (out map[int]calls, err error) {
	t, err := r.startProxy(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	if t.pid == 0 {
		return nil, nil
	}
	// Threads and kept connections exist after this.
	if _, err := r.runClient(ctx, slices.Max(r.Connections), r.CallCell, seed); err != nil {
		return nil, err
	}
	counter, err := countCalls(points, t.pid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, counter.close()) }()
	out = map[int]calls{}
	for i, connections := range r.Connections {
		before, err := counter.read()
		if err != nil {
			return nil, err
		}
		l, err := r.runClient(ctx, connections, r.CallCell, seed+i+1)
		if err != nil {
			return nil, err
		}
		after, err := counter.read()
		if err != nil {
			return nil, err
		}
		out[connections] = callsPerRequest(before, after, l.good())
	}
	return out, nil
}

func callsPerRequest(before, after calls, requests int) calls {
	out := calls{}
	for name, n := range after {
		if requests > 0 {
			out[name] = (n - before[name]) / float64(requests)
		}
	}
	return out
}

// describe returns the calls that are made for at least one in 50 requests, the most
// frequent ones first.
func (c calls) describe() string {
	const least = 0.02
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a, b))
	})
	other := c[allCalls]
	var words []string
	for _, name := range names {
		if name == allCalls {
			continue
		}
		if c[name] >= least {
			words = append(words, fmt.Sprintf("%s %.2f", name, c[name]))
			other -= c[name]
		}
	}
	if other >= least {
		words = append(words, fmt.Sprintf("other %.2f", other))
	}
	return strings.Join(words, ", ")
}

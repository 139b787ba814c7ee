// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// restartDelay is RestartSec of the unit.
const restartDelay = 250 * time.Millisecond

// stopTimeout is TimeoutStopSec of the unit.
const stopTimeout = 15 * time.Second

// Unit runs the service as systemd does with systemd/http01-proxyd.service: notifications,
// the descriptor store, Restart=always, and http01-proxyd-table.service at a stop. It is
// safe for concurrent use.
type Unit struct {
	rig    *Rig
	wrap   []string
	notify *lab.Notifications
	store  lab.DescriptorStore

	acting sync.Mutex // one start, stop or restart at a time

	mu       sync.Mutex // not held during I/O
	process  *lab.Process
	enabled  bool            // by the administrator
	ready    <-chan struct{} // closed when the process is ready
	restarts int             // by Restart=
	watchers sync.WaitGroup
}

// NewUnit returns the stopped service. wrap is a command that starts it.
func (r *Rig) NewUnit(wrap ...string) (*Unit, error) {
	path := filepath.Join(r.Host.Dir, notifySocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last notify socket: %w", err)
	}
	u := &Unit{rig: r, wrap: wrap}
	var err error
	u.notify, err = lab.ListenNotify(r.Host.Dir, notifySocket, &u.store)
	return u, err
}

const notifySocket = "notify.sock"

// Close stops the service and closes the notify socket.
func (u *Unit) Close(ctx context.Context) error { return u.close(u.Stop(ctx)) }

// Discard is Close without the time for requests in flight: the service is killed.
func (u *Unit) Discard(ctx context.Context) error { return u.close(u.stop(ctx, (*lab.Process).Kill)) }

func (u *Unit) close(err error) error {
	u.watchers.Wait()
	return errors.Join(err, u.notify.Close())
}

// Stopping returns a channel that is closed when the next process that stops sends STOPPING=1.
func (u *Unit) Stopping() <-chan struct{} { return u.notify.Next("STOPPING=1") }

// Heartbeat returns a channel that is closed at the next WATCHDOG=1. The service sends it with
// WATCHDOG_USEC in its environment.
func (u *Unit) Heartbeat() <-chan struct{} { return u.notify.Next("WATCHDOG=1") }

// Start starts the service unless it runs.
func (u *Unit) Start() error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	running := u.enabled
	u.enabled = true
	u.mu.Unlock()
	if running {
		return nil
	}
	return u.launch()
}

// Ready reports whether the current process sent READY=1.
func (u *Unit) Ready() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.ready:
		return true
	default:
		return false
	}
}

// AwaitReady waits for READY=1 of the current process.
func (u *Unit) AwaitReady(ctx context.Context) error {
	u.mu.Lock()
	ready := u.ready
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-ready: // nil blocks: no process was started
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the service is not ready: %w\n%s", context.Cause(ctx), u.Tail())
	}
}

// Files of the service on the host.
func (u *Unit) file(name string) string { return filepath.Join(u.rig.Dir, name) }

// StatusSocket returns the path of the status socket.
func (u *Unit) StatusSocket() string { return filepath.Join(u.rig.Host.Dir, "status.sock") }

// launch starts a process with the descriptors in the store.
func (u *Unit) launch() error {
	if err := u.notify.Drain(); err != nil { // of the process before
		return err
	}
	ready := u.notify.Next("READY=1")
	u.mu.Lock()
	u.ready = ready
	u.mu.Unlock()
	command := append(slices.Clone(u.wrap), u.rig.binary, "run",
		"--config", u.file("config.yaml"), "--state-dir", filepath.Join(u.rig.StateDir(), "http01-proxyd"), "--status-socket",
		u.StatusSocket(),
		"--manifests", u.file("manifests"), "--disabled-manifests", u.file("disabled-manifests"), "--apiserver-url",
		u.file("apiserver-url.env"),
		"--resolv-conf", u.file("resolv.conf"), "--hosts", u.file("hosts"))
	start := lab.Command{
		Name: "http01-proxyd", Path: command[0], Args: command[1:],
		Env: []string{"NOTIFY_SOCKET=" + u.notify.Path, "GOMEMLIMIT=240MiB"},
	}
	u.store.Pass(&start)
	process, err := u.rig.Host.Start(start)
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.process = process
	u.mu.Unlock()
	u.watchers.Add(1)
	go u.watch(process)
	return nil
}

// watch restarts the service after an exit that was not requested.
func (u *Unit) watch(p *lab.Process) {
	defer u.watchers.Done()
	<-p.Exited()
	u.acting.Lock()
	u.mu.Lock()
	again := u.enabled && u.process == p
	u.mu.Unlock()
	u.acting.Unlock()
	if !again {
		return
	}
	<-time.After(restartDelay)
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	again = u.enabled && u.process == p
	if again {
		u.restarts++
	}
	u.mu.Unlock()
	if again {
		_ = u.launch() // AwaitReady reports a failure
	}
}

// end ends the process and waits for the exit, at most TimeoutStopSec.
func (u *Unit) end(ctx context.Context, end func(*lab.Process, context.Context) error) error {
	u.mu.Lock()
	p := u.process
	u.mu.Unlock()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_ = end(p, ctx) // an exit by a signal that was sent before is no failure
	if ctx.Err() == nil {
		return nil
	}
	return p.Kill(context.WithoutCancel(ctx)) // as systemd does
}

// Restart is `systemctl restart`: the store and the table stay.
func (u *Unit) Restart(ctx context.Context) error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	u.enabled = true
	u.mu.Unlock()
	if err := u.end(ctx, (*lab.Process).End); err != nil {
		return err
	}
	return u.launch()
}

// Stop is `systemctl stop`: the store is closed, and http01-proxyd-table.service removes
// the table.
func (u *Unit) Stop(ctx context.Context) error { return u.stop(ctx, (*lab.Process).End) }

func (u *Unit) stop(ctx context.Context, end func(*lab.Process, context.Context) error) error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	u.enabled = false
	u.mu.Unlock()
	err := u.end(ctx, end)
	u.mu.Lock()
	u.process = nil
	u.mu.Unlock()
	err = errors.Join(err, u.notify.Drain(), u.store.Close())
	_, cleanup := u.rig.Host.Run(ctx, u.rig.binary, "cleanup")
	return errors.Join(err, cleanup)
}

// PID returns the process ID of the controller, or 0.
func (u *Unit) PID() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process == nil {
		return 0
	}
	select {
	case <-u.process.Exited():
		return 0
	default:
		return u.process.PID()
	}
}

// Child returns the process ID of a child process by its command, or 0.
func (u *Unit) Child(command string) int {
	pid := u.PID()
	if pid == 0 {
		return 0
	}
	for _, child := range lab.Children(pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if err != nil {
			continue
		}
		if args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"); len(args) == 2 && args[1] == command {
			return child
		}
	}
	return 0
}

// Signal sends a signal to a process of the service, 0 excepted. It reports whether there
// was one.
func Signal(pid int, s unix.Signal) bool { return pid != 0 && unix.Kill(pid, s) == nil }

// Kill kills a process of the service, 0 excepted, and waits for its end: until then it can
// accept connections, which the kernel resets. It reports whether there was one.
func Kill(pid int) (bool, error) {
	if pid == 0 {
		return false, nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false, nil
	}
	for deadline := time.Now().Add(stopTimeout); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline)).Milliseconds())) //nolint:gosec // a descriptor
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true, fmt.Errorf("wait for the end of process %d: %w", pid, err)
		case n == 0:
			return true, fmt.Errorf("process %d has not ended within %v of SIGKILL", pid, stopTimeout)
		default:
			return true, nil
		}
	}
}

// Tail returns the last lines of the service's log.
func (u *Unit) Tail() string {
	if u == nil {
		return ""
	}
	u.mu.Lock()
	p := u.process
	u.mu.Unlock()
	if p == nil {
		return ""
	}
	return p.Tail(40)
}

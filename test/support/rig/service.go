// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	socket *net.UnixConn
	closed chan struct{}

	acting sync.Mutex // one start, stop or restart at a time

	mu       sync.Mutex // not held during I/O
	process  *lab.Process
	wanted   bool // by the administrator
	store    []stored
	ready    chan struct{} // closed when the process is ready
	restarts int           // by Restart=
	watchers sync.WaitGroup
}

// stored is a descriptor in the store.
type stored struct {
	name string
	file *os.File
}

// NewUnit returns the stopped service. wrap is a command that starts it.
func (r *Rig) NewUnit(ctx context.Context, wrap ...string) (*Unit, error) {
	path := filepath.Join(r.Host.Dir, "notify.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the last notify socket: %w", err)
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "unixgram", path)
	if err != nil {
		return nil, fmt.Errorf("listen for notifications: %w", err)
	}
	socket, is := conn.(*net.UnixConn)
	if !is {
		return nil, errors.Join(fmt.Errorf("the notify socket is a %T", conn), conn.Close())
	}
	u := &Unit{rig: r, wrap: wrap, socket: socket, closed: make(chan struct{})}
	go u.receive()
	return u, nil
}

// Close stops the service and closes the notify socket.
func (u *Unit) Close(ctx context.Context) error {
	err := u.Stop(ctx)
	u.watchers.Wait()
	err = errors.Join(err, u.socket.Close())
	<-u.closed
	return err
}

// receive handles notifications until the socket is closed.
func (u *Unit) receive() {
	defer close(u.closed)
	text, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, rn, _, _, err := u.socket.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		u.handle(strings.Split(string(text[:n]), "\n"), receivedFiles(rights[:rn]))
	}
}

func receivedFiles(rights []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// handle acts on one notification. A descriptor that is not stored is closed, which is the
// reply to a barrier (sd_notify_barrier(3)).
func (u *Unit) handle(lines []string, files []*os.File) {
	name := ""
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, "FDNAME="); ok {
			name = value
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case slices.Contains(lines, "FDSTORE=1"):
		for _, f := range files {
			u.store = append(u.store, stored{name, f})
		}
		return
	case slices.Contains(lines, "FDSTOREREMOVE=1"):
		u.store = slices.DeleteFunc(u.store, func(s stored) bool {
			if s.name == name {
				_ = s.file.Close()
			}
			return s.name == name
		})
	case slices.Contains(lines, "READY=1"):
		select {
		case <-u.ready:
		default:
			if u.ready != nil {
				close(u.ready)
			}
		}
	}
	for _, f := range files {
		_ = f.Close()
	}
}

// Start starts the service unless it runs.
func (u *Unit) Start() error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	running := u.wanted
	u.wanted = true
	u.mu.Unlock()
	if running {
		return nil
	}
	return u.launch()
}

// Ready reports whether the current process has sent READY=1.
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
	u.mu.Lock()
	stored := slices.Clone(u.store)
	ready := make(chan struct{})
	u.ready = ready
	u.mu.Unlock()
	var names []string
	var files []*os.File
	for _, s := range stored {
		names, files = append(names, s.name), append(files, s.file)
	}
	env := []string{"NOTIFY_SOCKET=" + filepath.Join(u.rig.Host.Dir, "notify.sock"), "FDSTORE=8", "GOMEMLIMIT=240MiB"}
	command := slices.Clone(u.wrap)
	if len(files) > 0 {
		// LISTEN_PID must be the process itself, which a shell before it has.
		command = append(command, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`)
		env = append(env, "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	command = append(command, u.rig.binary, "run",
		"--config", u.file("config.yaml"), "--state-dir", filepath.Join(u.rig.StateDir(), "http01-proxyd"), "--status-socket", u.StatusSocket(),
		"--manifests", u.file("manifests"), "--disabled-manifests", u.file("disabled-manifests"), "--apiserver-url", u.file("apiserver-url.env"),
		"--resolv-conf", u.file("resolv.conf"), "--hosts", u.file("hosts"))
	process, err := u.rig.Host.Start(lab.Command{Name: "http01-proxyd", Path: command[0], Args: command[1:], Env: env, Files: files})
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
	again := u.wanted && u.process == p
	u.mu.Unlock()
	u.acting.Unlock()
	if !again {
		return
	}
	<-time.After(restartDelay)
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	again = u.wanted && u.process == p
	if again {
		u.restarts++
	}
	u.mu.Unlock()
	if again {
		_ = u.launch() // AwaitReady reports a failure
	}
}

// end sends SIGTERM and waits for the exit, at most TimeoutStopSec.
func (u *Unit) end(ctx context.Context) error {
	u.mu.Lock()
	p := u.process
	u.mu.Unlock()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.End(ctx); ctx.Err() != nil {
		return errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
	}
	return nil // an exit by a signal that was sent before is no failure
}

// Restart is `systemctl restart`: the store and the table stay.
func (u *Unit) Restart(ctx context.Context) error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	u.wanted = true
	u.mu.Unlock()
	if err := u.end(ctx); err != nil {
		return err
	}
	return u.launch()
}

// Stop is `systemctl stop`: the store is closed, and http01-proxyd-table.service removes
// the table.
func (u *Unit) Stop(ctx context.Context) error {
	u.acting.Lock()
	defer u.acting.Unlock()
	u.mu.Lock()
	u.wanted = false
	u.mu.Unlock()
	err := u.end(ctx)
	u.mu.Lock()
	store := u.store
	u.store, u.process = nil, nil
	u.mu.Unlock()
	for _, s := range store {
		err = errors.Join(err, s.file.Close())
	}
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

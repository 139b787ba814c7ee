// SPDX-License-Identifier: Apache-2.0

//go:build linux

package slowsync

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Delayer delays the calls of the programs that its command starts.
type Delayer struct {
	delay   time.Duration
	socket  *net.UnixListener
	command []string
	delayed atomic.Int64
	closed  chan struct{}
	close   func() error
}

// New returns a Delayer with a socket in dir. The program must call Main.
func New(dir string, delay time.Duration) (*Delayer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "slowsync.sock")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for launchers: %w", err)
	}
	d := &Delayer{delay: delay, socket: socket, command: []string{exe, launchCommand, path}, closed: make(chan struct{})}
	d.close = sync.OnceValue(func() error {
		close(d.closed)
		return socket.Close()
	})
	go d.accept()
	return d, nil
}

// Command returns the command that starts the program in its further arguments.
func (d *Delayer) Command() []string { return d.command }

// Delayed returns the number of calls so far.
func (d *Delayer) Delayed() int64 { return d.delayed.Load() }

// Close ends the delay of all calls.
func (d *Delayer) Close() error { return d.close() }

func (d *Delayer) accept() {
	for {
		conn, err := d.socket.AcceptUnix()
		if err != nil {
			return
		}
		listener, err := receiveListener(conn)
		_ = conn.Close()
		if err != nil {
			continue // the launcher reports that it cannot start the program
		}
		go d.serve(listener)
	}
}

func receiveListener(conn *net.UnixConn) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, flags, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil || flags&unix.MSG_CTRUNC != 0 {
		return -1, errors.Join(errNoListener, err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errNoListener, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errNoListener, err)
	}
	return fds[0], nil
}

// notification is struct seccomp_notif, and response is struct seccomp_notif_resp
// (seccomp_unotify(2)).
type (
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		data  [64]byte
	}
	response struct {
		id    uint64
		val   int64
		error int32
		flags uint32
	}
)

// serve delays the calls of one program and its children until all end.
func (d *Delayer) serve(listener int) {
	var calls sync.WaitGroup
	defer func() {
		calls.Wait()
		_ = unix.Close(listener)
	}()
	for {
		events := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		switch _, err := unix.Poll(events, -1); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || events[0].Revents&unix.POLLIN == 0:
			return
		}
		var call notification
		if !control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)) { //nolint:gosec // ioctl(2) takes a pointer
			continue // the thread was killed
		}
		d.delayed.Add(1)
		calls.Go(func() {
			select {
			case <-time.After(d.delay):
			case <-d.closed:
			}
			answer := response{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)) //nolint:gosec // ioctl(2) takes a pointer
		})
	}
}

// control makes one request to the listener, and reports whether it succeeded.
func control(listener int, request uintptr, argument unsafe.Pointer) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), request, uintptr(argument))
	return errno == 0
}

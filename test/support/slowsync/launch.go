// SPDX-License-Identifier: Apache-2.0

//go:build linux

package slowsync

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchCommand is the argument with which a program that calls Main becomes the launcher.
const launchCommand = "slowsync-launch"

// Main is the first call of main or TestMain. In a launcher it does not return.
func Main() {
	if len(os.Args) < 4 || os.Args[1] != launchCommand {
		return
	}
	err := launch(os.Args[2], os.Args[3:])
	fmt.Fprintln(os.Stderr, "slowsync:", err)
	os.Exit(1)
}

// launch installs the filter on its thread, sends the listener to the socket, and replaces
// this process by the program, which inherits the filter (seccomp(2)).
func launch(socket string, argv []string) error {
	runtime.LockOSThread()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return fmt.Errorf("connect to %s: %w", socket, err)
	}
	listener, err := installFilter()
	if err != nil {
		return fmt.Errorf("install the filter: %w", err)
	}
	if err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	return fmt.Errorf("execute %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// installFilter makes the kernel notify a listener of the two calls and wait for its reply.
func installFilter() (listener int, err error) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // a few instructions
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	// A signal, for example from Go's scheduler, does not repeat a call that waits.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // seccomp(2) takes a pointer
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

var errNoListener = errors.New("the launcher has sent no listener")

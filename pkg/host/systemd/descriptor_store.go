// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DescriptorStore is the manager's file descriptor store (systemd.service(5),
// FileDescriptorStoreMax=). It keeps descriptors open while the unit is restarted or after a
// crash, and closes them when the unit stops. It is safe for concurrent use.
type DescriptorStore struct {
	socket  string
	timeout time.Duration // for a busy manager
}

// NewDescriptorStore returns nil if there is no store. Since version 254, systemd sets
// FDSTORE to the size of the store. For older versions the unit sets it.
func NewDescriptorStore() *DescriptorStore {
	socket := os.Getenv("NOTIFY_SOCKET")
	if places, err := strconv.Atoi(os.Getenv("FDSTORE")); err != nil || places <= 0 || socket == "" {
		return nil
	}
	return &DescriptorStore{socket, barrierTimeout}
}

// InheritedDescriptors returns the descriptors that the store kept from an earlier process of
// this unit, by name. The caller then owns them. Only the first call returns any. If several
// share a name, it returns one and closes the others.
//
// It reads the environment as sd_listen_fds(3) does. go-systemd's package for this would link
// TLS.
func InheritedDescriptors() map[string]int {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	inherited := make(map[string]int)
	if pid != strconv.Itoa(os.Getpid()) {
		return inherited
	}
	n, _ := strconv.Atoi(count)
	all := strings.Split(names, ":")
	for i := range min(n, len(all)) {
		fd := firstInherited + i
		unix.CloseOnExec(fd)
		if other, ok := inherited[all[i]]; ok {
			_ = unix.Close(other)
		}
		inherited[all[i]] = fd
	}
	return inherited
}

// firstInherited is SD_LISTEN_FDS_START.
const firstInherited = 3

// Add puts a descriptor into the store under a name (sd_pid_notify_with_fds(3)) and returns
// when the manager holds it.
func (s *DescriptorStore) Add(name string, fd int) error {
	if err := s.sendAndWait("FDSTORE=1\nFDNAME="+name, fd); err != nil {
		return fmt.Errorf("store descriptor %s with systemd: %w", name, err)
	}
	return nil
}

// Remove removes the descriptors of a name from the store and returns when the manager
// closed them.
func (s *DescriptorStore) Remove(name string) error {
	if err := s.sendAndWait("FDSTOREREMOVE=1\nFDNAME="+name, -1); err != nil {
		return fmt.Errorf("remove descriptor %s from systemd's store: %w", name, err)
	}
	return nil
}

// barrierTimeout limits the wait for a busy manager.
const barrierTimeout = 2 * time.Second

// sendAndWait waits until the manager reads the message and all earlier ones. The manager
// then closes the end of a pipe (sd_notify_barrier(3)).
func (s *DescriptorStore) sendAndWait(state string, fd int) error {
	if err := s.send(state, fd); err != nil {
		return err
	}
	near, far, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create a pipe: %w", err)
	}
	defer near.Close()
	err = s.send("BARRIER=1", int(far.Fd()))
	if err = errors.Join(err, far.Close()); err != nil {
		return err
	}
	if err = near.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if _, err = near.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("systemd did not read the message within %v", s.timeout)
	}
	return nil
}

func (s *DescriptorStore) send(state string, fd int) error {
	if err := sendMessage(s.socket, state, fd, s.timeout, 0); err != nil {
		return fmt.Errorf("send to systemd: %w", err)
	}
	return nil
}

// sendMessage sends a message to the manager's socket, with a descriptor unless fd is
// negative. It waits for timeout at most while the manager's queue is full (unix(7)).
func sendMessage(path, state string, fd int, timeout time.Duration, flags int) error {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(socket)
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	for end := time.Now().Add(timeout); ; {
		bound := unix.NsecToTimeval(max(time.Microsecond, time.Until(end)).Nanoseconds()) // 0 is no bound
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &bound); err != nil {
			return fmt.Errorf("set the send timeout: %w", err)
		}
		// Signals interrupt a call with a timeout (signal(7)): SIGHUP, SIGCHLD, also SIGCONT.
		err := unix.Sendmsg(socket, []byte(state), rights, &unix.SockaddrUnix{Name: path}, unix.MSG_NOSIGNAL|flags)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

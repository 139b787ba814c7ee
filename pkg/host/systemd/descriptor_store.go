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

// DescriptorStore is the manager's descriptor store (systemd.service(5),
// FileDescriptorStoreMax=): a second hand on descriptors, which outlives this
// process when the unit is restarted or the process crashes, and lets go when
// the unit stops. Its methods are safe for concurrent use.
type DescriptorStore struct {
	socket  string
	timeout time.Duration // with a manager that is busy
}

// NewDescriptorStore returns nil when there is no store. systemd says in FDSTORE how many
// descriptors it takes from version 254 on; a unit for older ones says it itself.
func NewDescriptorStore() *DescriptorStore {
	socket := os.Getenv("NOTIFY_SOCKET")
	if places, err := strconv.Atoi(os.Getenv("FDSTORE")); err != nil || places <= 0 || socket == "" {
		return nil
	}
	return &DescriptorStore{socket, barrierTimeout}
}

// InheritedDescriptors takes what the store has kept from a former process of this unit,
// by name; every descriptor is the caller's then. Only the first call returns
// any. Of several with the same name it takes one.
//
// It reads what sd_listen_fds(3) does; go-systemd's package for that would link
// the whole of TLS.
func InheritedDescriptors() map[string]int {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	kept := make(map[string]int)
	if pid != strconv.Itoa(os.Getpid()) {
		return kept
	}
	n, _ := strconv.Atoi(count)
	all := strings.Split(names, ":")
	for i := range min(n, len(all)) {
		fd := firstInherited + i
		unix.CloseOnExec(fd)
		if other, is := kept[all[i]]; is {
			_ = unix.Close(other)
		}
		kept[all[i]] = fd
	}
	return kept
}

// firstInherited is SD_LISTEN_FDS_START.
const firstInherited = 3

// Add puts a descriptor into the store under a name (sd_pid_notify_with_fds(3))
// and returns when the manager has it.
func (s *DescriptorStore) Add(name string, fd int) error {
	err := s.send("FDSTORE=1\nFDNAME="+name, fd)
	if err == nil {
		err = s.barrier()
	}
	if err != nil {
		return fmt.Errorf("store descriptor %s with systemd: %w", name, err)
	}
	return nil
}

// Remove takes the descriptors of a name out of the store, and returns when the
// manager has let them go.
func (s *DescriptorStore) Remove(name string) error {
	err := s.send("FDSTOREREMOVE=1\nFDNAME="+name, -1)
	if err == nil {
		err = s.barrier()
	}
	if err != nil {
		return fmt.Errorf("take descriptor %s out of systemd's store: %w", name, err)
	}
	return nil
}

// barrierTimeout bounds the wait for a manager that is busy.
const barrierTimeout = 2 * time.Second

// barrier waits until the manager has read all that was sent: it closes the
// pipe's end then (sd_notify_barrier(3)).
func (s *DescriptorStore) barrier() error {
	near, far, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
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
		return fmt.Errorf("systemd has not read it within %v", s.timeout)
	}
	return nil
}

func (s *DescriptorStore) send(state string, fd int) error {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(socket)
	bound := unix.NsecToTimeval(s.timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &bound); err != nil {
		return fmt.Errorf("bound the sending: %w", err)
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if err := unix.Sendmsg(socket, []byte(state), rights, &unix.SockaddrUnix{Name: s.socket}, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("send to systemd: %w", err)
	}
	return nil
}

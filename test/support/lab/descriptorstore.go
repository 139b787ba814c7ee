// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// DescriptorStore is the file descriptor store of a unit (systemd.service(5),
// FileDescriptorStoreMax=): it keeps descriptors of the service while it is restarted. A nil
// one keeps none. test/support/host runs the unit with systemd itself.
type DescriptorStore struct {
	mu    sync.Mutex
	names []string // of the files; names may repeat
	files []*os.File

	source *Notifications // of the last process; owned by LaunchService
}

// awaitLast waits until the descriptors of the last process arrive. It must have exited.
func (s *DescriptorStore) awaitLast() {
	if s != nil && s.source != nil {
		<-s.source.done
	}
}

// receive takes the descriptors of one message (sd_pid_notify_with_fds(3)).
func (s *DescriptorStore) receive(lines []string, rights []byte) {
	var name string
	for _, line := range lines {
		if value, is := strings.CutPrefix(line, "FDNAME="); is {
			name = value
		}
	}
	if s != nil && slices.Contains(lines, "FDSTOREREMOVE=1") {
		s.remove(name)
	}
	for _, fd := range descriptors(rights) {
		file := os.NewFile(uintptr(fd), name)
		if s == nil || !slices.Contains(lines, "FDSTORE=1") {
			_ = file.Close() // also the end of sd_notify_barrier(3)
			continue
		}
		s.mu.Lock()
		s.names, s.files = append(s.names, name), append(s.files, file)
		s.mu.Unlock()
	}
}

// descriptors returns the descriptors of a message.
func descriptors(rights []byte) (all []int) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	for _, fd := range all {
		unix.CloseOnExec(fd)
	}
	return all
}

// remove closes the descriptors of a name.
func (s *DescriptorStore) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.names) - 1; i >= 0; i-- {
		if s.names[i] == name {
			_ = s.files[i].Close()
			s.names, s.files = slices.Delete(s.names, i, i+1), slices.Delete(s.files, i, i+1)
		}
	}
}

// Pass makes a command inherit the descriptors (sd_listen_fds(3)). LISTEN_PID is the process ID
// of the shell, which the service keeps.
func (s *DescriptorStore) Pass(c *Command) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Env = append(c.Env, "FDSTORE="+strconv.Itoa(maxDescriptors))
	if len(s.files) == 0 {
		return
	}
	c.Files = slices.Clone(s.files)
	c.Env = append(c.Env, "LISTEN_FDS="+strconv.Itoa(len(s.files)), "LISTEN_FDNAMES="+strings.Join(s.names, ":"))
	c.Args = slices.Concat([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", c.Path}, c.Args)
	c.Path = "sh"
}

// Close closes the descriptors, as systemd does when the unit stops.
func (s *DescriptorStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, file := range s.files {
		errs = append(errs, file.Close())
	}
	s.names, s.files = nil, nil
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childMode makes the test binary a process with inherited descriptors.
const childMode = "HTTP01_PROXYD_SYSTEMD_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) == "" {
		os.Exit(m.Run())
	}
	inherited := InheritedDescriptors()
	for _, name := range slices.Sorted(maps.Keys(inherited)) {
		var stat unix.Stat_t
		flags, err := unix.FcntlInt(uintptr(inherited[name]), unix.F_GETFD, 0)
		err = errors.Join(err, unix.Fstat(inherited[name], &stat))
		fmt.Println(name, stat.Ino, flags == unix.FD_CLOEXEC, err)
	}
	fmt.Println(len(InheritedDescriptors()), os.Getenv("LISTEN_FDS"))
}

// fakeManager replaces systemd in tests that need a slow manager or read its messages. The
// real store is tested in test/support/host.
type fakeManager struct {
	*testing.T
	*net.UnixConn
}

func startFakeManager(t *testing.T) fakeManager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("FDSTORE", "8")
	return fakeManager{t, socket}
}

// receive reads a message and its descriptor, or -1 without one.
func (m fakeManager) receive() (string, int) {
	m.Helper()
	text, rights := make([]byte, 4096), make([]byte, 256)
	n, rn, _, _, err := m.ReadMsgUnix(text, rights)
	if err != nil {
		m.Error(err)
		return "", -1
	}
	fd := -1
	if messages, err := unix.ParseSocketControlMessage(rights[:rn]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			fd = fds[0]
		}
	}
	return string(text[:n]), fd
}

func TestDescriptorStoreProtocol(t *testing.T) {
	m := startFakeManager(t)
	s := NewDescriptorStore()
	file, err := os.Create(filepath.Join(t.TempDir(), "stored"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	done := make(chan error, 1)
	go func() { done <- s.Add("port-8888", int(file.Fd())) }()
	text, fd := m.receive()
	var sent, own unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &sent), unix.Fstat(int(file.Fd()), &own)); err != nil || sent.Ino != own.Ino {
		t.Errorf("another descriptor was received (%v)", err)
	}
	_ = unix.Close(fd)
	if text != "FDSTORE=1\nFDNAME=port-8888" {
		t.Errorf("received %q", text)
	}
	text, fd = m.receive()
	if text != "BARRIER=1" || fd < 0 {
		t.Errorf("received %q with descriptor %d", text, fd)
	}
	select {
	case err := <-done:
		t.Errorf("Add did not wait for the manager: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	_ = unix.Close(fd) // the manager has read all messages
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- s.Remove("port-8888") }()
	if text, _ := m.receive(); text != "FDSTOREREMOVE=1\nFDNAME=port-8888" {
		t.Errorf("received %q", text)
	}
	_, fd = m.receive()
	_ = unix.Close(fd)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDescriptorStoreTimeout(t *testing.T) {
	m := startFakeManager(t)
	s := NewDescriptorStore()
	if s.timeout != barrierTimeout {
		t.Errorf("a store waits %v for the manager", s.timeout)
	}
	s.timeout = time.Millisecond
	if err := s.Add("port-8888", 0); err == nil || !strings.Contains(err.Error(), "port-8888") {
		t.Errorf("a manager that reads nothing: %v", err)
	}
	_ = m.Close()
	if err := NewDescriptorStore().Add("port-8888", 0); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("no manager: %v", err)
	}
}

func TestNewDescriptorStoreWithoutStore(t *testing.T) {
	for _, environment := range [][2]string{{"", "8"}, {"/run/notify", ""}, {"/run/notify", "0"}, {"/run/notify", "x"}} {
		t.Setenv("NOTIFY_SOCKET", environment[0])
		t.Setenv("FDSTORE", environment[1])
		if NewDescriptorStore() != nil {
			t.Errorf("a store with NOTIFY_SOCKET=%q and FDSTORE=%q", environment[0], environment[1])
		}
	}
}

func TestInheritedDescriptors(t *testing.T) {
	var files []*os.File
	var inodes []any
	for range 3 {
		file, err := os.Create(filepath.Join(t.TempDir(), "stored"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var stat unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
			t.Fatal(err)
		}
		files, inodes = append(files, file), append(inodes, stat.Ino)
	}
	child := func(environment string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", environment+` exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), childMode+"=1")
		cmd.ExtraFiles = files
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for environment, want := range map[string]string{
		"LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=port-1:port-2:x": fmt.Sprintf(
			"port-1 %d true <nil>\nport-2 %d true <nil>\nx %d true <nil>\n0 \n", inodes...),
		// Of two descriptors with one name, one is closed. Missing descriptors are ignored.
		"LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:a": fmt.Sprintf("a %d true <nil>\n0 \n", inodes[1]),
		"LISTEN_PID=$$ LISTEN_FDS=9 LISTEN_FDNAMES=a":   fmt.Sprintf("a %d true <nil>\n0 \n", inodes[0]),
		"LISTEN_PID=1 LISTEN_FDS=3 LISTEN_FDNAMES=a:b":  "0 \n", // for another process
		"LISTEN_PID=$$ LISTEN_FDS=-1":                   "0 \n",
		"":                                              "0 \n",
	} {
		if got := child(environment); got != want {
			t.Errorf("%s: got %q, want %q", environment, got, want)
		}
	}
}

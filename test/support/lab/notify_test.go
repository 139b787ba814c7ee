// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotifyBarrier: after Drain, everything that was sent before has been received.
func TestNotifyBarrier(t *testing.T) {
	t.Parallel()
	var store DescriptorStore
	n, err := ListenNotify(t.TempDir(), "n", &store)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ready := n.Next("READY=1")
	const sent = 20
	for range sent {
		if err := unix.Sendmsg(socket, []byte("FDSTORE=1\nFDNAME=a\n"), unix.UnixRights(int(file.Fd())), &unix.SockaddrUnix{Name: n.Path}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Sendmsg(socket, []byte("READY=1"), nil, &unix.SockaddrUnix{Name: n.Path}, 0); err != nil {
		t.Fatal(err)
	}
	if err := n.Drain(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ready:
	default:
		t.Error("a message before the barrier has not been received")
	}
	var c Command
	store.Pass(&c)
	if len(c.Files) != sent {
		t.Errorf("%d descriptors, want %d", len(c.Files), sent)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Drain(); err == nil {
		t.Error("no error after Close")
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

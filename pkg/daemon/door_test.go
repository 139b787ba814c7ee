// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// listener is what the gate makes of a listening socket.
func listener(t *testing.T) *net.TCPListener {
	t.Helper()
	fd, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		t.Fatalf("it is a %T", ln)
	}
	return tcp
}

func TestListenerIsPlainTCPWithSmallBuffers(t *testing.T) {
	t.Parallel()
	ln := listener(t)
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v; want TCP", protocol, err)
		}
		for name, option := range map[string]int{"receive": unix.SO_RCVBUF, "send": unix.SO_SNDBUF} {
			// The kernel doubles what is set, for its own bookkeeping (socket(7)).
			if size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option); err != nil || size > 2*socketBuffer {
				t.Errorf("%s buffer of %d bytes, %v", name, size, err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

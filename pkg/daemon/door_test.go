// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListenerIsPlainTCPWithSmallBuffers(t *testing.T) {
	t.Parallel()
	ln, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n := backlog(ln); n != 1 {
		t.Errorf("backlog %d, with one connection waiting", n)
	}
	accepted, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if n := backlog(ln); n != 0 {
		t.Errorf("backlog %d, with none waiting", n)
	}
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

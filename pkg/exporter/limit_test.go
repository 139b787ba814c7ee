// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestSilentConnectionIsClosed uses a room for one connection. A connection that
// has sent no request is closed when another one needs its place.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := newLimitListener(ln, 1)
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	// Without eviction, Accept blocks.
	accept := func() net.Conn {
		t.Helper()
		accepted := make(chan net.Conn, 1)
		go func() {
			conn, _ := r.Accept()
			accepted <- conn
		}()
		select {
		case conn := <-accepted:
			if conn == nil {
				t.Fatal("no connection accepted")
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		case <-time.After(30 * time.Second):
			t.Fatal("Accept blocks")
		}
		return nil
	}
	silent := dial()
	accept()
	next := dial()
	if got := accept().RemoteAddr().String(); got != next.LocalAddr().String() {
		t.Errorf("accepted a connection from %s, want %s", got, next.LocalAddr())
	}
	_ = silent.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the silent connection reads %v, want EOF", err)
	}
}

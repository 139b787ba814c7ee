// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMalformedBody has bodies with an error in the first bytes, in any pieces. No
// byte of the response may be sent, so that the client can get an error response.
func TestMalformedBody(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, body := range map[string]string{
		"no size":            "x\r\n",
		"a size too long":    "1234567812345678\r\n",
		"LF":                 "5\ntoken",
		"a page, not chunks": "<html></html>\r\n",
		"an endless line":    strings.Repeat("1", maxChunkLine+1),
		"a bad extension":    "5;\x00\r\ntoken\r\n0\r\n\r\n",
		"a bad trailer":      "0\r\n x\r\n\r\n",
		"endless trailers":   "0\r\n" + strings.Repeat("X: y\r\n", maxChunkOverhead),
		"ends":               "5\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for piecewise, response := range map[string]io.Reader{
				"at once":      bytes.NewReader([]byte(chunked + body)),
				"byte by byte": byteReader{bytes.NewReader([]byte(chunked + body))},
			} {
				out, x, _, err := relayResponse(response, false, false)
				if err == nil || len(out) > 0 || x.sent {
					t.Errorf("%s: %v after %q", piecewise, err, out)
				}
			}
		})
	}
}

// measuringWriter is a client that checks the buffers of the exchange at each
// write.
type measuringWriter struct {
	t *testing.T
	x *Relay
	n int
}

func (m *measuringWriter) Write(p []byte) (int, error) {
	first := m.n == 0
	m.n += len(p)
	if first {
		return len(p), nil // the head, and the bytes that arrived with it
	}
	if in, out := len(m.x.input), cap(m.x.output); in > relayBufferSize || out > 2*relayBufferSize || len(p) > relayBufferSize+len("1000\r\n\r\n0\r\n\r\n") {
		m.t.Errorf("after %d bytes: %d are written, %d held for reading and %d for writing", m.n, len(p), in, out)
	}
	return len(p), nil
}

// TestRelayMemory bounds the cost of a slow reader of a long response, also after the
// longest head.
func TestRelayMemory(t *testing.T) {
	const size = maxBody
	body := strings.Repeat("x", size)
	for name, response := range map[string]string{
		"by length":   "Content-Length: 65536\r\n\r\n" + body,
		"chunks":      "Transfer-Encoding: chunked\r\n\r\n10000\r\n" + body + "\r\n0\r\n\r\n",
		"small ones":  "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", size) + "0\r\n\r\n",
		"until close": "\r\n" + body,
	} {
		for filled, field := range map[string]string{"": "", ", a long head": "X: " + strings.Repeat("y", maxResponseHead-200) + "\r\n"} {
			t.Run(name+filled, func(t *testing.T) {
				x := new(Relay)
				w := scriptedStream{sent: strings.NewReader("HTTP/1.1 200 OK\r\n" + field + response)}
				if err := x.sendAndReadHead(w, &attempt{}, nil); err != nil {
					t.Fatal(err)
				}
				m := &measuringWriter{t: t, x: x}
				if _, _, err := x.begin(&Request{}, &activeSettings{}, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := x.relay(w, m); err != nil || m.n < size {
					t.Errorf("%d bytes relayed: %v", m.n, err)
				}
				x.Reset()
				if len(x.input) > firstReadSize || cap(x.output) > 2*firstReadSize {
					t.Errorf("%d and %d bytes are kept for the next exchange", len(x.input), cap(x.output))
				}
			})
		}
	}
}

// TestWaitingMemory checks the buffers during the wait for the first byte.
func TestWaitingMemory(t *testing.T) {
	x := new(Relay)
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- x.sendAndReadHead(scriptedStream{sent: pr}, &attempt{}, nil) }()
	// The write returns when the exchange has begun to read.
	if _, err := pw.Write([]byte("H")); err != nil {
		t.Fatal(err)
	}
	_ = pw.Close()
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Errorf("sendAndReadHead: %v", err)
	}
	if len(x.input) != firstReadSize || cap(x.output) != 0 {
		t.Errorf("%d and %d bytes", len(x.input), cap(x.output))
	}
}

// TestSocketBuffers: the kernel's memory for a connection to the ingress is bounded
// too.
func TestSocketBuffers(t *testing.T) {
	r := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) { _, _ = b.ReadByte() })
	c := newPlainClient(t, r)
	conn, failure := c.connect(&attempt{c.active.Load().plain[0], testTimeout, time.Now().Add(testTimeout), time.Now().Add(testTimeout), newRequest()})
	if failure != nil {
		t.Fatal(failure)
	}
	defer conn.abort()
	for name, option := range map[string]int{"receive": syscall.SO_RCVBUF, "send": syscall.SO_SNDBUF} {
		var size int
		var err error
		raw, failed := conn.socket.Conn.(syscall.Conn).SyscallConn()
		if failed != nil {
			t.Fatal(failed)
		}
		if err := raw.Control(func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option) }); err != nil {
			t.Fatal(err)
		}
		if err != nil || size == 0 || size > 2*SocketBuffer {
			t.Errorf("the %s buffer has %d bytes, %v", name, size, err)
		}
	}
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
}

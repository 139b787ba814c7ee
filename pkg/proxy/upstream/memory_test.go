// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestMalformedBody has bodies with an error, in any pieces.
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
				if _, err := relayResponse(response, false); err == nil {
					t.Errorf("%s: no error", piecewise)
				}
			}
		})
	}
}

// TestLargeResponses: the larger responses in memory are bounded, whatever their framing. None
// keeps its buffers for the next exchange.
func TestLargeResponses(t *testing.T) {
	body := strings.Repeat("x", maxBody)
	var all []*Relay
	for _, response := range []string{
		"Content-Length: 65536\r\n\r\n" + body,
		"Transfer-Encoding: chunked\r\n\r\n10000\r\n" + body + "\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10\r\n"+body[:16]+"\r\n", maxChunks) + "0\r\n\r\n",
		"\r\n" + body,
	} {
		for range maxLargeResponses / 4 {
			x, err := relayResponse(strings.NewReader("HTTP/1.1 200 OK\r\n"+response), false)
			if err != nil || !bytes.HasSuffix(x.Output(), []byte(body)) {
				t.Fatalf("%d bytes, %v", len(x.Output()), err)
			}
			all = append(all, x)
		}
	}
	next := func(n int) error {
		x, err := relayResponse(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"+body[:n]), false)
		x.Reset()
		return err
	}
	if err := next(smallResponse); ExchangeError(netip.AddrPort{}, err, true).Cause != findings.LocalResources {
		t.Errorf("one more: %v", err)
	}
	if err := next(smallResponse / 2); err != nil {
		t.Errorf("a small one: %v", err)
	}
	for _, x := range all {
		if x.Reset(); len(x.input) > firstReadSize || cap(x.output) > 2*firstReadSize {
			t.Errorf("%d and %d bytes are kept for the next exchange", len(x.input), cap(x.output))
		}
	}
	if err := next(smallResponse); err != nil {
		t.Errorf("after their end: %v", err)
	}
}

// TestSocketBuffers: the kernel's memory for a connection to the ingress is bounded
// too.
func TestSocketBuffers(t *testing.T) {
	r := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) { _, _ = b.ReadByte() })
	c := newPlainClient(t, r)
	conn, failure := c.connect(c.ctx, &attempt{
		c.active.Load().plain[0], testTimeout, time.Now().Add(testTimeout),
		time.Now().Add(testTimeout), newRequest(),
	})
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
		if err := raw.Control(
			func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option) }); err != nil {
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

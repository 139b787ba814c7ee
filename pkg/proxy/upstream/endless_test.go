// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// countingWriter counts the bytes for the client.
type countingWriter struct{ n int }

func (s *countingWriter) Write(p []byte) (int, error) {
	s.n += len(p)
	return len(p), nil
}

// TestEndlessResponse has an upstream that sends 1 GiB, in every framing. The client
// gets at most the permitted part and sees that it is a part, or gets an error
// response. The connection ends at once.
func TestEndlessResponse(t *testing.T) {
	const (
		gib   = 1 << 30
		ok    = "HTTP/1.1 200 OK\r\n"
		block = 32 << 10
		most  = maxBody*len("1\r\nx\r\n") + 1024 // in the smallest chunks, and a head
	)
	for name, test := range map[string]struct {
		head, piece string
		begun       bool // a part of the response was sent
	}{
		"by length":       {ok + "Content-Length: 1073741824\r\n\r\n", strings.Repeat("x", block), false},
		"one chunk":       {ok + "Transfer-Encoding: chunked\r\n\r\n40000000\r\n", strings.Repeat("x", block), false},
		"chunks":          {ok + "Transfer-Encoding: chunked\r\n\r\n", "8000\r\n" + strings.Repeat("x", block) + "\r\n", true},
		"smallest chunks": {ok + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", block/4), true},
		"until close":     {ok + "\r\n", strings.Repeat("x", block), true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan error, 1)
			r := startRouter(t, "127.0.0.1:0", func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
				if !readRequest(b) {
					return
				}
				_, err := tcp.Write([]byte(test.head))
				for piece := []byte(test.piece); err == nil && sent.Load() < gib; {
					var n int
					n, err = tcp.Write(piece)
					sent.Add(int64(n))
				}
				ended <- err
			})
			c := newPlainClient(t, r)
			var out countingWriter
			status, _, err := c.Exchange(newRequest(), &out)
			var e *Error
			if !errors.As(err, &e) || e.Cause != findings.ResponseTooLarge || e.Truncated() != test.begun || (e.ClientStatus == 502) == test.begun {
				t.Fatalf("%v, cut %v", err, e.Truncated())
			}
			checkTexts(t, e)
			if (status == 200) != test.begun || (out.n > 0) != test.begun || out.n > most {
				t.Errorf("status %d, the client got %d bytes", status, out.n)
			}
			if err := <-ended; !isAny(err, syscall.ECONNRESET, syscall.EPIPE) {
				t.Errorf("the upstream's connection: %v", err)
			}
			// The rest is in socket buffers: the router's, and the client's of 16
			// KiB.
			if n := sent.Load(); n > 16<<20 {
				t.Errorf("the upstream got %d bytes off", n)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestEndlessResponse has an upstream that sends 1 GiB, in every framing. The client gets an
// error response. The connection ends at once.
func TestEndlessResponse(t *testing.T) {
	const (
		gib   = 1 << 30
		ok    = "HTTP/1.1 200 OK\r\n"
		block = 32 << 10
	)
	for name, test := range map[string]struct{ head, piece string }{
		"by length":       {ok + "Content-Length: 1073741824\r\n\r\n", strings.Repeat("x", block)},
		"one chunk":       {ok + "Transfer-Encoding: chunked\r\n\r\n40000000\r\n", strings.Repeat("x", block)},
		"chunks":          {ok + "Transfer-Encoding: chunked\r\n\r\n", "8000\r\n" + strings.Repeat("x", block) + "\r\n"},
		"smallest chunks": {ok + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", block/4)},
		"until close":     {ok + "\r\n", strings.Repeat("x", block)},
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
			var x Relay
			_, e := newPlainClient(t, r).Exchange(t.Context(), newRequest(), &x)
			if e == nil || e.Cause != findings.ResponseTooLarge || e.ClientStatus != 502 {
				t.Fatalf("%v", e)
			}
			checkTexts(t, e)
			if n := len(x.Output()); n > maxBody+1024 {
				t.Errorf("%d bytes are in memory", n)
			}
			x.Reset()
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

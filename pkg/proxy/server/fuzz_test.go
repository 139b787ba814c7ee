// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// choices are the decisions of one run, from the input of the fuzzer.
type choices struct{ rest []byte }

// below returns the next number below n.
func (c *choices) below(n int) int {
	if len(c.rest) == 0 {
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return int(b) % n
}

// scriptedClient is one client, and how the router answers it.
type scriptedClient struct {
	kind     int // of the request: 0 and 1 are challenges, 2 is refused, 3 ends early, 4 stops early
	head     int // bytes of its head that a client of kind 4 sends
	response int // of the router, index of responses()
	cut      int // bytes of the response that the router sends; at most all
	piece    int // bytes of each write of the router
	stall    int // 1: the router then waits, and does not close the connection
	pieces   []string
	tcp      *net.TCPConn
}

const fuzzBody = "token.key"

// responses are the head and body of each kind of response. The last one is malformed.
func responses() [4][2]string {
	const ok = "HTTP/1.1 200 OK\r\n"
	return [...][2]string{
		{ok + "Content-Length: 9\r\n\r\n", fuzzBody},
		{ok + "Transfer-Encoding: chunked\r\n\r\n", "9\r\n" + fuzzBody + "\r\n0\r\n\r\n"},
		{ok + "\r\n", fuzzBody},
		{"HTTP/1.1 2x0 OK\r\n\r\n", ""},
	}
}

// request returns what the client sends. The token has the choices for the router.
func (s *scriptedClient) request() string {
	switch s.kind {
	case 2:
		return "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	case 3:
		return "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHo"
	case 4:
		return "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHo"[:s.head]
	default:
		return fmt.Sprintf("GET /.well-known/acme-challenge/%d-%d-%d-%d HTTP/1.1\r\nHost: a\r\n\r\n", s.response, s.cut,
			s.piece, s.stall)
	}
}

// whole is the complete response of the router.
func (s *scriptedClient) whole() string {
	return responses()[s.response][0] + responses()[s.response][1]
}

// stalls reports whether only a timer ends the exchange.
func (s *scriptedClient) stalls() bool {
	complete := s.response < 2 && s.cut == len(s.whole()) || s.response == 3 && s.cut >= len("HTTP/1.1 2x0 OK\r\n")
	return s.kind < 2 && s.stall == 1 && !complete
}

// expire has the timer of a client expire that waits for nothing else. This is an event like
// others: it comes when the connection is in the state whose wait it ends. Until then it
// reports false.
func (s *scriptedClient) expire(server *testServer) bool {
	client := s.tcp.LocalAddr().(*net.TCPAddr).AddrPort()
	switch {
	case s.kind == 4:
		return server.ExpireHead(client, s.head)
	case s.stalls():
		return server.ExpireExchange(client)
	default:
		return true
	}
}

// answerScripted is the router.
func answerScripted(tcp *net.TCPConn, r *bufio.Reader) {
	for {
		var response, cut, piece, stall int
		if _, err := fmt.Sscanf(readHead(r), "GET /.well-known/acme-challenge/%d-%d-%d-%d ", &response, &cut, &piece,
			&stall); err != nil {
			return
		}
		parts := responses()[response]
		text := parts[0] + parts[1]
		for rest := text[:cut]; rest != ""; {
			n := min(piece, len(rest))
			if _, err := io.WriteString(tcp, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		if cut < len(text) || response > 1 {
			if stall == 1 {
				_, _ = r.ReadByte() // until the proxy closes the connection
			}
			return
		}
	}
}

// check compares the response with a model.
func (s *scriptedClient) check(t *testing.T) {
	t.Helper()
	text, err := io.ReadAll(s.tcp)
	status, body := 0, ""
	if r, e := http.ReadResponse(bufio.NewReader(strings.NewReader(string(text))), nil); e == nil {
		b, e := io.ReadAll(r.Body)
		if status, body = r.StatusCode, string(b); e != nil {
			err = e
		}
		_ = r.Body.Close()
	}
	head, whole := len(responses()[s.response][0]), s.whole()
	switch {
	case s.kind == 2:
		if status != 400 || body != reqhead.OnlyChallenges || err != nil {
			t.Errorf("a refused request: %q, %v", text, err)
		}
	case s.kind == 3:
		if status != 400 || err != nil {
			t.Errorf("half a head: %q, %v", text, err)
		}
	case s.kind == 4:
		if s.head == 0 && len(text) > 0 || s.head > 0 && status != 408 || err != nil {
			t.Errorf("%d bytes of a head in time: %q, %v", s.head, text, err)
		}
	case s.stalls():
		if status != 504 || err != nil {
			t.Errorf("%d bytes of response %d in time: %q, %v", s.cut, s.response, text, err)
		}
	case s.response == 2 && s.cut >= head:
		if status != 200 || body != whole[head:s.cut] || err != nil {
			t.Errorf("a body until the end: %q, %v", text, err)
		}
	case s.response < 2 && s.cut == len(whole):
		if status != 200 || body != fuzzBody || err != nil {
			t.Errorf("a whole response: %q, %v", text, err)
		}
	default:
		if status != 502 || err != nil {
			t.Errorf("%d bytes of response %d: %q, %v", s.cut, s.response, text, err)
		}
	}
}

// FuzzConnections runs clients that send their requests in pieces, in any order, or not in
// time, and a router that answers in pieces, breaks off or stalls. Each client gets what a
// model predicts, each connection is recorded once, and nothing stays.
func FuzzConnections(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{3, 1, 0, 0, 255, 3, 0, 1, 255, 1, 0, 2, 30, 2, 0, 3, 9, 1})
	f.Add([]byte{3, 0, 4, 0, 0, 0, 0, 40, 2, 3, 9, 0, 2, 30, 5, 1, 0, 1, 0, 0, 1, 50, 30, 1, 0, 1, 0, 1, 2, 255, 7, 1})
	f.Add([]byte{2, 0, 2, 5, 20, 3, 1, 7, 1, 0, 40, 2, 3, 1, 2, 1, 2, 0, 1, 2})
	f.Fuzz(func(t *testing.T, input []byte) {
		c := &choices{input}
		clients := make([]*scriptedClient, 1+c.below(4))
		settings := testSettings()
		settings.PerSource = 2 * c.below(2)
		server := startServer(t, settings, startIngress(t, answerScripted))
		var order []int
		for i := range clients {
			s := &scriptedClient{kind: c.below(5), response: c.below(4)}
			if settings.PerSource > 0 {
				s.kind = min(s.kind, 2) // half a head would be evicted
			}
			s.cut, s.piece, s.stall, s.head = min(c.below(256), len(s.whole())), 1+c.below(32), c.below(2), c.below(45)
			rest := s.request()
			for settings.PerSource == 0 && len(s.pieces) < c.below(4) && rest != "" {
				n := c.below(len(rest))
				s.pieces, rest = append(s.pieces, rest[:n]), rest[n:]
			}
			s.pieces = append(s.pieces, rest)
			if clients[i] = s; settings.PerSource == 0 {
				s.tcp = dial(t, server.addr)
			}
			for range s.pieces {
				order = append(order, i)
			}
		}
		for i := range order {
			j := i + c.below(len(order)-i)
			order[i], order[j] = order[j], order[i]
			s := clients[order[i]]
			if s.tcp == nil {
				s.tcp = dial(t, server.addr)
			}
			send(t, s.tcp, s.pieces[0])
			if s.pieces = s.pieces[1:]; len(s.pieces) == 0 && s.kind == 3 {
				_ = s.tcp.CloseWrite()
			}
		}
		waiting := slices.Clone(clients) // a stalled one can wait for the slot of another one
		nstest.Await(t, "every timer has expired", func() bool {
			waiting = slices.DeleteFunc(waiting, func(s *scriptedClient) bool { return s.expire(server) })
			return len(waiting) == 0
		})
		for _, s := range clients {
			s.check(t)
		}
		challenges, rejections := server.rec.await(t, len(clients))
		if len(challenges)+len(rejections) != len(clients) {
			t.Errorf("%d connections were recorded as %v and %v", len(clients), challenges, rejections)
		}
		nstest.Await(t, "every connection has ended", func() bool { return server.InFlight() == 0 })
	})
}

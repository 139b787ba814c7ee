// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// reject answers a request that is not forwarded.
func (c *connection) reject(f reqhead.Fault, isHead bool) { c.writeResponse(f.Response(), isHead) }

// upstreamFailed is the response, 502 or 504, for a request whose exchange with the
// ingress failed.
func upstreamFailed(status int, text string) reqhead.Response {
	if status == 504 {
		return reqhead.Response{Status: status, Phrase: "Gateway Timeout", Text: text}
	}
	return reqhead.Response{Status: status, Phrase: "Bad Gateway", Text: text}
}

// writeResponse writes a response of this proxy. clientWriter records a failed write.
func (c *connection) writeResponse(r reqhead.Response, isHead bool) {
	now := time.Now()
	b := c.out[:0]
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, r.Phrase...)
	// RFC 9110 section 6.6.1: a server with a clock sends the time.
	b = append(b, "\r\nDate: "...)
	b = now.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT")
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Text)), 10)
	b = append(b, r.Field...)
	// RFC 9110 section 15.5: caches may store some of these responses by default.
	b = append(b, "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"...)
	if !isHead {
		b = append(b, r.Text...)
	}
	c.out = b
	_ = c.tcp.SetWriteDeadline(now.Add(responseWriteTimeout))
	_, _ = c.writer.Write(b)
}

// closeConnection ends the connection after a response. If bytes of the client are
// unread or still arrive, close(2) sends a reset. The reset can discard the response
// before the client has read it (RFC 9112 section 9.6). The connection is then
// closed in two steps. expected means that the client will send more bytes.
func (s *Server) closeConnection(c *connection, expected bool) {
	if !c.writer.failed && (expected || c.tcp.HasUnread()) {
		s.linger(c)
	}
	_ = c.tcp.Close()
}

// linger shuts down the sending side and reads, within bounds, until the client
// closes its side. Such a client has its response and is evicted first.
func (s *Server) linger(c *connection) {
	if c.tcp.CloseWrite() != nil || c.tcp.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	s.connections.startLingering(c) // after SetReadDeadline, because an eviction shortens that deadline
	discarded := c.buf[:cap(c.buf)]
	for total := 0; total < lingerBytes; {
		n, err := c.tcp.Read(discarded)
		if err != nil {
			return
		}
		total += n
	}
}

// abort closes the connection with a reset. It serves two cases: the client has a
// part of a response that may look complete, or the connection is evicted. A reset
// leaves neither unread bytes nor a wait for the peer in this host's kernel
// (tcp(7), SO_LINGER). A client sees at once that it can retry.
func (c *connection) abort() {
	_ = c.tcp.Reset()
}

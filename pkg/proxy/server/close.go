// SPDX-License-Identifier: Apache-2.0

package server

import "time"

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

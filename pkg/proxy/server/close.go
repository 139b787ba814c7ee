// SPDX-License-Identifier: Apache-2.0

package server

import "time"

// closeConnection ends the connection after an answer. A socket that is closed while
// bytes of the client are unread, or still come, sends a reset, and that may
// throw our answer away before the client has read it (RFC 9112 section 9.6).
// So it is closed in two steps then; expected says that bytes are to come.
func (g *Server) closeConnection(c *connection, expected bool) {
	if !c.writer.failed && (expected || c.tcp.HasUnread()) {
		g.linger(c)
	}
	_ = c.tcp.Close()
}

// linger ends our side and reads on, within bounds, until the client ends its
// own. A client that is only waited for so has its answer, and makes room for
// others first.
func (g *Server) linger(c *connection) {
	if c.tcp.CloseWrite() != nil || c.tcp.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	g.connections.startLingering(c) // after the deadline, which that may shorten
	waste := c.buf[:cap(c.buf)]
	for total := 0; total < lingerBytes; {
		n, err := c.tcp.Read(waste)
		if err != nil {
			return
		}
		total += n
	}
}

// abort ends the connection with a reset. It is for a client with a part of an
// answer that may look like a whole one, and for one that has to make room: a
// reset leaves nothing of the connection in this host's kernel, neither unread
// bytes nor a wait for the other side to end it (tcp(7), SO_LINGER), and tells an
// honest client at once that it may try again.
func (c *connection) abort() {
	_ = c.tcp.Reset()
}

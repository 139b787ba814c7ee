// SPDX-License-Identifier: Apache-2.0

package server

import "golang.org/x/sys/unix"

// InFlight is how many connections are in flight.
func (g *Server) InFlight() int {
	n, _ := g.connections.inFlight()
	return n
}

// HasWaiting reports whether a connection that was accepted waits for a slot.
func (g *Server) HasWaiting() bool {
	g.connections.mu.Lock()
	defer g.connections.mu.Unlock()
	return g.connections.changed != nil
}

// ReadingHeads is how many connections have sent a part of a head, which was read.
func (g *Server) ReadingHeads() int {
	return g.countMatching(g.connections.reading, func(c *connection) bool {
		sent := false
		_ = c.tcp.Control(func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			sent = err == nil && info.Bytes_received > 0
			return err
		})
		return sent && !c.tcp.HasUnread()
	})
}

// Lingering is how many connections have their answer and go on sending.
func (g *Server) Lingering() int {
	return g.countMatching(g.connections.lingering, func(*connection) bool { return true })
}

func (g *Server) countMatching(in *connectionList, like func(*connection) bool) (n int) {
	g.connections.mu.Lock()
	defer g.connections.mu.Unlock()
	in.forEach(func(c *connection) {
		if like(c) {
			n++
		}
	})
	return n
}

// Sources is how many sources are counted.
func (g *Server) Sources() int {
	g.connections.mu.Lock()
	defer g.connections.mu.Unlock()
	return len(g.connections.sources)
}

// TokenHash is what tells a token from others.
func TokenHash(token string) uint64 { return tokenHash([]byte(token)) }

// SPDX-License-Identifier: Apache-2.0

package server

import "golang.org/x/sys/unix"

// InFlight returns the number of connections in flight.
func (g *Server) InFlight() int {
	n, _ := g.connections.inFlight()
	return n
}

// HasWaiting reports whether an accepted connection waits for a slot.
func (g *Server) HasWaiting() bool {
	g.connections.mu.Lock()
	defer g.connections.mu.Unlock()
	return g.connections.changed != nil
}

// ReadingHeads returns the number of connections whose partial head was read.
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

// Lingering returns the number of connections that have their answer and still
// send.
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

// Sources returns the number of counted sources.
func (g *Server) Sources() int {
	g.connections.mu.Lock()
	defer g.connections.mu.Unlock()
	return len(g.connections.sources)
}

// TokenHash returns the hash that identifies a token.
func TokenHash(token string) uint64 { return tokenHash([]byte(token)) }

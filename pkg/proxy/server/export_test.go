// SPDX-License-Identifier: Apache-2.0

package server

import "golang.org/x/sys/unix"

// InFlight returns the number of connections in flight.
func (s *Server) InFlight() int {
	n, _ := s.connections.inFlight()
	return n
}

// HasWaiting reports whether an accepted connection waits for a slot.
func (s *Server) HasWaiting() bool {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	return s.connections.changed != nil
}

// ReadingHeads returns the number of connections whose partial head was read.
func (s *Server) ReadingHeads() int {
	return s.countMatching(s.connections.reading, func(c *connection) bool {
		sent := false
		_ = c.tcp.Control(func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			sent = err == nil && info.Bytes_received > 0
			return err
		})
		return sent && !c.tcp.HasUnread()
	})
}

// Lingering returns the number of connections that have their response and still
// send.
func (s *Server) Lingering() int {
	return s.countMatching(s.connections.lingering, func(*connection) bool { return true })
}

func (s *Server) countMatching(in *connectionList, like func(*connection) bool) (n int) {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	in.forEach(func(c *connection) {
		if like(c) {
			n++
		}
	})
	return n
}

// Sources returns the number of counted sources.
func (s *Server) Sources() int {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	return len(s.connections.sources)
}

// TokenHash returns the hash that identifies a token.
func TokenHash(token string) uint64 { return tokenHash([]byte(token)) }

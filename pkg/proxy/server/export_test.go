// SPDX-License-Identifier: Apache-2.0

package server

import "golang.org/x/sys/unix"

// InFlight is how many connections are in flight.
func (g *Gate) InFlight() int {
	n, _ := g.live.state()
	return n
}

// Waits reports whether a connection that was accepted waits for a slot.
func (g *Gate) Waits() bool {
	g.live.mu.Lock()
	defer g.live.mu.Unlock()
	return g.live.changed != nil
}

// Reading is how many connections have sent a part of a head, which was read.
func (g *Gate) Reading() int {
	return g.staying(g.live.reading, func(c *conversation) bool {
		sent := false
		_ = c.tcp.Control(func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			sent = err == nil && info.Bytes_received > 0
			return err
		})
		return sent && !c.tcp.Unread()
	})
}

// Lingering is how many connections have their answer and go on sending.
func (g *Gate) Lingering() int {
	return g.staying(g.live.lingering, func(*conversation) bool { return true })
}

func (g *Gate) staying(in *list, like func(*conversation) bool) (n int) {
	g.live.mu.Lock()
	defer g.live.mu.Unlock()
	in.each(func(c *conversation) {
		if like(c) {
			n++
		}
	})
	return n
}

// Sources is how many sources are counted.
func (g *Gate) Sources() int {
	g.live.mu.Lock()
	defer g.live.mu.Unlock()
	return len(g.live.sources)
}

// TokenHash is what tells a token from others.
func TokenHash(token string) uint64 { return tokenHash([]byte(token)) }

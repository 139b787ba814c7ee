// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
)

// MinHeadTime is minHeadTime.
const MinHeadTime = minHeadTime

// InFlight returns the number of connections in flight.
func (s *Server) InFlight() int { return s.table.inFlight() }

// Held returns the number of event loops whose accepted connection waits for a slot.
func (s *Server) Held() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.paused)
}

// HasWaiting reports whether an accepted connection waits for a slot.
func (s *Server) HasWaiting() bool { return s.Held() > 0 }

// Queued returns the number of challenges that wait for a slot.
func (s *Server) Queued() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return s.table.all.counts[queued]
}

// StopClock has the bounds see no time pass: nobody has waited for long enough to be evicted.
func (s *Server) StopClock() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	now := time.Now()
	s.table.clock = func(*connection) time.Time { return now }
}

// ReadingHeads returns the number of connections whose partial head was read.
func (s *Server) ReadingHeads() int {
	return s.countMatching(readingHead, func(c *connection) bool {
		info, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err == nil && info.Bytes_received > 0 && !loop.HasUnread(c.fd)
	})
}

// Lingering returns the number of connections that got their response and still send.
func (s *Server) Lingering() int {
	return s.countMatching(lingering, func(*connection) bool { return true })
}

func (s *Server) countMatching(in stage, like func(*connection) bool) (n int) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for c := range s.table.all.lists[in].Backward {
		if like(c) {
			n++
		}
	}
	return n
}

// Pause stops the only event loop between two batches of events. resume has it fetch the next
// batch, and stops it again before the handlers. release ends that.
func (s *Server) Pause(tb testing.TB) (resume, release func()) {
	tb.Helper()
	paused, resumed, fetched, released := make(chan struct{}), make(chan struct{}), make(chan struct{}),
		make(chan struct{})
	w := s.workers[0]
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) // it is ready
	if err != nil {
		tb.Fatal(err)
	}
	w.Post(func() {
		err = w.Watch(fd, handlerFunc(func() {
			close(fetched)
			<-released
			w.Close(fd)
		}))
		close(paused)
		<-resumed
	})
	if <-paused; err != nil {
		tb.Fatal(err)
	}
	return func() {
		close(resumed)
		<-fetched
	}, func() { close(released) }
}

type handlerFunc func()

func (f handlerFunc) Ready(uint32) { f() }

// ExpireHead ends the wait for the head of a client as its timer would, once n bytes of it were
// read. It reports whether it has.
func (s *Server) ExpireHead(client netip.AddrPort, n int) bool {
	return s.expire(client, func(c *connection) bool { return c.state == reading && c.isInFlight() && len(c.buf) == n })
}

// ExpireExchange ends the wait for the ingress as its timer would. It reports whether it has.
func (s *Server) ExpireExchange(client netip.AddrPort) bool {
	return s.expire(client, func(c *connection) bool { return c.state == sending || c.state == awaiting })
}

func (s *Server) expire(client netip.AddrPort, waits func(*connection) bool) (expired bool) {
	for _, w := range s.workers {
		w.perform(func() {
			for c := range w.connections.Backward {
				if c.client == client && waits(c) {
					expired, c.headTimeout = true, 0
					w.StopTimer(&c.timer)
					c.expired()
					return
				}
			}
		})
	}
	return expired
}

// Sources returns the number of counted sources.
func (s *Server) Sources() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.sources)
}

// TokenHash returns the hash that identifies a token.
func TokenHash(token string) uint64 { return tokenHash([]byte(token)) }

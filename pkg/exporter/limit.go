// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// silentTimeout is how long a connection may keep its place without a request while others
// want one: a scraper sends its own at once.
const silentTimeout = 250 * time.Millisecond

// limitListener is a listener with that many connections at a time. For one more the one
// that has waited longest for its request is closed.
type limitListener struct {
	net.Listener
	slots chan struct{}

	mu      sync.Mutex
	waiting []*limitedConn // without a request, the oldest first
}

// limitedConn is a connection that has a place.
type limitedConn struct {
	net.Conn
	since   time.Time
	release func()
}

func newLimitListener(ln net.Listener, places int) *limitListener {
	return &limitListener{Listener: ln, slots: make(chan struct{}, places)}
}

// Accept implements net.Listener.
func (r *limitListener) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.acquire()
	g := &limitedConn{Conn: conn, since: time.Now()}
	g.release = sync.OnceFunc(func() {
		r.removeWaiting(g)
		<-r.slots
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, g)
	return g, nil
}

// acquire takes a place: one that is free, or that of who has waited for too long.
// When all have a request, the server's timeouts bound the wait.
func (r *limitListener) acquire() {
	for {
		oldest := r.oldest()
		patience := silentTimeout
		if oldest != nil {
			patience = time.Until(oldest.since.Add(silentTimeout))
		}
		select {
		case r.slots <- struct{}{}:
			return
		case <-time.After(patience):
			if oldest != nil {
				_ = oldest.Close()
			}
		}
	}
}

func (r *limitListener) oldest() *limitedConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil
	}
	return r.waiting[0]
}

// connState is the server's ConnState: it takes note of requests that have come.
func (r *limitListener) connState(conn net.Conn, state http.ConnState) {
	if g, is := conn.(*limitedConn); is && state != http.StateNew {
		r.removeWaiting(g)
	}
}

func (r *limitListener) removeWaiting(g *limitedConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(other *limitedConn) bool { return other == g })
}

// Close gives the place back.
func (g *limitedConn) Close() error {
	defer g.release()
	return g.Conn.Close()
}

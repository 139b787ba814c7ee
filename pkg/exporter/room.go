// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// grace is how long a connection may keep its place without a request while others
// want one: a scraper sends its own at once.
const grace = 250 * time.Millisecond

// room is a listener with that many connections at a time. For one more the one
// that has waited longest for its request is closed.
type room struct {
	net.Listener
	places chan struct{}

	mu      sync.Mutex
	waiting []*guest // without a request, the oldest first
}

// guest is a connection that has a place.
type guest struct {
	net.Conn
	since time.Time
	leave func()
}

func newRoom(ln net.Listener, places int) *room {
	return &room{Listener: ln, places: make(chan struct{}, places)}
}

// Accept implements net.Listener.
func (r *room) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.enter()
	g := &guest{Conn: conn, since: time.Now()}
	g.leave = sync.OnceFunc(func() {
		r.forget(g)
		<-r.places
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, g)
	return g, nil
}

// enter takes a place: one that is free, or that of who has waited for too long.
// When all have a request, the server's timeouts bound the wait.
func (r *room) enter() {
	for {
		oldest := r.oldest()
		patience := grace
		if oldest != nil {
			patience = time.Until(oldest.since.Add(grace))
		}
		select {
		case r.places <- struct{}{}:
			return
		case <-time.After(patience):
			if oldest != nil {
				_ = oldest.Close()
			}
		}
	}
}

func (r *room) oldest() *guest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil
	}
	return r.waiting[0]
}

// moved is the server's ConnState: it takes note of requests that have come.
func (r *room) moved(conn net.Conn, state http.ConnState) {
	if g, is := conn.(*guest); is && state != http.StateNew {
		r.forget(g)
	}
}

func (r *room) forget(g *guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(other *guest) bool { return other == g })
}

// Close gives the place back.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

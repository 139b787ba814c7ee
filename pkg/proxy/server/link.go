// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

const (
	// maxIdle bounds the idle connections of one address and worker. A burst of requests
	// needs one for each, and a new one costs more than the request.
	maxIdle = 256
	// idleTimeout is how long an idle connection is kept. OpenShift's router closes
	// it after 10 s (timeout http-request).
	idleTimeout = 5 * time.Second
)

// link is a connection to the ingress.
type link struct {
	worker *worker
	fd     int
	addr   netip.AddrPort
	owner  *connection // whose exchange uses it; nil while it is idle
	reused bool
	// hasUnread means that the event of bytes that may be unread has passed.
	hasUnread bool
	// ended means that the event of its end has passed, which is not reported again.
	ended  bool
	timer  loop.Timer
	expire func() // drop
}

// Ready implements loop.Handler.
func (l *link) Ready(events uint32) {
	l.ended = l.ended || events&loop.Closed != 0
	switch {
	case l.owner != nil:
		l.owner.linkReady(events)
	case events&loop.Readable != 0:
		l.drop() // its end, or bytes that no request is waiting for
	}
}

// connect begins a new connection.
func (w *worker) connect(addr netip.AddrPort) (*link, error) {
	fd, err := loop.Connect(addr, upstream.SocketBuffer)
	if err != nil {
		return nil, err
	}
	l := &link{worker: w, fd: fd, addr: addr}
	l.expire = l.drop
	if err := w.WatchFirst(fd, l); err != nil {
		loop.Close(fd)
		return nil, err
	}
	return l, nil
}

// takeLink returns the last used idle connection, or nil. The end of a connection, and bytes
// that no request is waiting for, are events: they close an idle connection before a client
// gets it whose event was fetched at the same time. Nothing is tested again, which would be a
// system call for each request. A connection whose end comes later is replaced (linkFailed).
func (w *worker) takeLink(addr netip.AddrPort) *link {
	idle := w.links[addr]
	if len(idle) == 0 {
		return nil
	}
	l := idle[len(idle)-1]
	w.links[addr] = idle[:len(idle)-1]
	w.StopTimer(&l.timer)
	l.reused = true
	return l
}

// keepLink keeps a connection after a complete response. The longest idle one is closed
// when there is no room.
func (w *worker) keepLink(l *link) {
	l.owner = nil
	if idle := w.links[l.addr]; len(idle) >= maxIdle {
		idle[0].drop()
	}
	w.links[l.addr] = append(w.links[l.addr], l)
	w.SetTimer(&l.timer, w.Now().Add(idleTimeout), l.expire)
}

// drop closes an idle connection.
func (l *link) drop() {
	w := l.worker
	w.StopTimer(&l.timer)
	if rest := slices.DeleteFunc(w.links[l.addr], func(other *link) bool { return other == l }); len(rest) > 0 {
		w.links[l.addr] = rest
	} else {
		delete(w.links, l.addr) // an address that is no longer configured
	}
	l.close()
}

func (l *link) close() {
	l.worker.Drop(l.fd)
	loop.Close(l.fd)
}

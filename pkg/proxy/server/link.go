// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// maxIdle bounds the idle connections of a worker. A burst of requests needs one for
// each, and a new one costs more than the request. All workers together keep about an
// eighth of MaxConnections: the controller reserves descriptors for a quarter.
const maxIdle = 256

// link is a connection to the ingress, with the response that it carries.
type link struct {
	upstream.Relay

	worker    *worker
	fd        int
	addr      netip.AddrPort
	host      string          // that its requests are for
	owner     *connection     // whose exchange uses it; nil while it is idle
	idle      loop.Node[link] // among the idle ones of its worker
	sent      int             // bytes of the request
	reused    bool            // it carried an exchange before
	hasUnread bool            // the event of bytes that may be unread passed
	ended     bool            // the event of its end passed, which is not reported again
	timer     loop.Timer      // of upstream.IdleTimeout
	begin     func()          // beginRequest
}

func (l *link) Ready(events uint32) {
	l.ended = l.ended || events&loop.Closed != 0
	switch {
	case l.owner != nil:
		l.owner.linkReady(events)
	case events&loop.Readable != 0:
		l.close() // its end, or bytes that no request is waiting for
	}
}

func (w *worker) connect(addr netip.AddrPort, host string) (*link, error) {
	fd, err := loop.Connect(addr, upstream.SocketBuffer)
	if err != nil {
		return nil, err
	}
	l := &link{worker: w, fd: fd, addr: addr, host: host}
	l.timer.Expired, l.begin = l.close, l.beginRequest
	if err := w.Watch(fd, l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// takeLink returns the last used idle connection to an address, or nil. It carries requests for
// one host: bytes that the ingress sends unrequested can still arrive after the next request,
// whose client takes them for the response.
func (w *worker) takeLink(addr netip.AddrPort, host string) *link {
	for l := range w.idle.Backward {
		if l.host == host && l.addr == addr {
			w.unlist(l)
			return l
		}
	}
	return nil
}

// keepLink keeps a connection after a complete response, unless its next request could wait
// for a path that ended. The longest idle one is closed when there is no room.
func (w *worker) keepLink(l *link) {
	if !l.reused && sockopt.LimitUnacknowledged(l.fd, upstream.MaxUnacknowledged) != nil {
		l.close()
		return
	}
	limit := min(maxIdle-1, w.server.settings.Load().MaxConnections/(8*maxWorkers))
	if w.idleCount > limit {
		w.idle.First().close()
	}
	l.Reset()
	l.owner, l.sent, l.reused = nil, 0, true
	w.idleCount++
	w.idle.PushBack(&l.idle, l)
	w.SetTimer(&l.timer, w.Now().Add(upstream.IdleTimeout))
}

// dropLinks closes the idle connections of all workers to an address.
func (w *worker) dropLinks(addr netip.AddrPort) {
	for _, other := range w.server.workers {
		other.Post(func() {
			for l := range other.idle.Backward {
				if l.addr == addr {
					l.close()
				}
			}
		})
	}
}

func (w *worker) unlist(l *link) {
	if l.idle.Remove() {
		w.idleCount--
		w.StopTimer(&l.timer)
	}
}

func (l *link) close() {
	l.owner = nil
	l.Reset()
	l.worker.unlist(l)
	l.worker.Close(l.fd)
}

// beginRequest sends the request on a kept connection. It is posted, so that all events are
// handled first that happened before the request was complete: the end of the connection, or
// bytes that no request is waiting for, which its client would take for the response. Only a
// loop that is behind must look for them, which takes a system call.
func (l *link) beginRequest() {
	switch c := l.owner; {
	case c == nil: // closed meanwhile
	case l.worker.Behind() && loop.HasUnread(l.fd):
		c.reconnect()
	default:
		c.transmit()
	}
}

// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net"
	"sync"
)

// limited is a listener with that many connections at a time; more wait in the
// backlog.
type limited struct {
	net.Listener
	slots chan struct{}
}

func limit(ln net.Listener, connections int) *limited {
	return &limited{ln, make(chan struct{}, connections)}
}

// Accept waits for a free place, and then for a connection. Every connection ends
// within its timeouts, and with it the wait for a place.
func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

// placed is a connection that has a place.
type placed struct {
	net.Conn
	leave func()
}

// Close gives the place back.
func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

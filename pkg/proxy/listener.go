// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
)

// backlogGracePeriod is how long a port without a redirect stays open. A client
// whose handshake was under way when the table changed is still served.
const backlogGracePeriod = time.Second

type listener struct {
	*server.Listener

	once   sync.Once
	closed chan struct{} // closed when this process has closed the port
}

func (p *process) listen(port uint16, fd int) error {
	if fd < 0 {
		return fmt.Errorf("cannot serve port %d: the command has no socket", port)
	}
	ln, err := p.server.Listen(fd)
	if err != nil {
		return fmt.Errorf("cannot serve port %d: %w", port, err)
	}
	p.listening[port] = &listener{Listener: ln, closed: make(chan struct{})}
	return nil
}

// close serves the backlog and closes the port.
func (l *listener) close(ctx context.Context) {
	l.once.Do(func() {
		l.awaitEmptyBacklog(ctx)
		l.Close()
		close(l.closed)
	})
}

// stopListening closes a port after backlogGracePeriod. While connections wait in
// its backlog, it stays open for at most the same time again.
func (p *process) stopListening(port uint16) {
	p.stopping = slices.DeleteFunc(p.stopping, func(l *listener) bool { return isClosed(l.closed) })
	l := p.listening[port]
	if l == nil {
		p.send(protocol.Event{Stopped: &protocol.Stopped{Port: port}})
		return
	}
	delete(p.listening, port)
	p.stopping = append(p.stopping, l)
	p.group.Go(func() error {
		select {
		case <-time.After(backlogGracePeriod):
		case <-p.ctx.Done():
		case <-l.closed: // by Drain
		}
		l.close(p.ctx)
		p.send(protocol.Event{Stopped: &protocol.Stopped{Port: port}})
		return nil
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drain closes every port and waits for the challenges in flight. It runs beside
// the goroutine that receives commands.
func (p *process) drain(budget time.Duration) {
	listeners := slices.AppendSeq(p.stopping, maps.Values(p.listening))
	p.stopping = nil
	clear(p.listening)
	p.group.Go(func() error {
		ctx, cancel := context.WithTimeout(p.ctx, budget)
		defer cancel()
		for _, l := range listeners {
			l.close(ctx)
		}
		cut := p.server.Drain(ctx)
		p.stats.flush(p.sendStats)
		p.send(protocol.Event{Drained: &protocol.Drained{Cut: cut}})
		return nil
	})
}

// awaitEmptyBacklog returns when all waiting connections are accepted, or after
// backlogGracePeriod. Closing a listener resets the connections in its backlog.
func (l *listener) awaitEmptyBacklog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogGracePeriod)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for l.Backlog() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
)

// backlogGracePeriod is how long a port without a redirect stays open. A client whose handshake
// began before the table changed is still served.
const backlogGracePeriod = time.Second

func (p *process) listen(port uint16, fd int) error {
	if fd < 0 {
		return fmt.Errorf("cannot serve port %d: the command has no socket", port)
	}
	if err := p.server.Listen(fd); err != nil {
		return fmt.Errorf("cannot serve port %d: %w", port, err)
	}
	p.listening[port] = fd
	return nil
}

// stopListening closes a port after backlogGracePeriod. While
// connections wait in its backlog, it stays open for at most the same time again.
func (p *process) stopListening(port uint16) {
	fd, listening := p.listening[port]
	stopped := protocol.Event{Stopped: &protocol.Stopped{Port: port}}
	if !listening {
		p.send(stopped)
		return
	}
	delete(p.listening, port)
	p.stopping.Go(func() {
		select {
		case <-time.After(backlogGracePeriod):
		case <-p.ctx.Done():
		}
		p.closeListener(p.ctx, fd)
		p.send(stopped)
	})
}

// drain closes every port and waits for the challenges in flight. It runs beside
// the goroutine that receives commands.
func (p *process) drain(budget time.Duration) {
	listeners := slices.Collect(maps.Values(p.listening))
	clear(p.listening)
	p.group.Go(func() error {
		ctx, cancel := context.WithTimeout(p.ctx, budget)
		defer cancel()
		for _, fd := range listeners {
			p.closeListener(ctx, fd)
		}
		p.stopping.Wait()
		cut := p.server.Drain(ctx)
		p.stats.flush(p.sendStats)
		p.send(protocol.Event{Drained: &protocol.Drained{Cut: cut}})
		return nil
	})
}

// closeListener closes a port when all waiting connections are accepted, or after
// backlogGracePeriod. Closing it resets the connections in its backlog.
func (p *process) closeListener(ctx context.Context, fd int) {
	defer p.server.StopListening(fd)
	ctx, cancel := context.WithTimeout(ctx, backlogGracePeriod)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for server.Backlog(fd) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

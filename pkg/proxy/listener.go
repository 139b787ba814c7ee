// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
)

// backlogGracePeriod is how long a port without a redirect stays open. A client
// whose handshake was under way when the table changed is still served.
const backlogGracePeriod = time.Second

type listener struct {
	ln     *tcp.Listener
	cancel context.CancelFunc // ends the accept loop
	closed chan struct{}      // closed when this process has closed the port
}

func (p *process) listen(port uint16, fd int) error {
	ln, err := newListener(port, fd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(p.ctx)
	l := &listener{ln, cancel, make(chan struct{})}
	p.listening[port] = l
	beat, done := p.heartbeat.Source("accept on port " + strconv.Itoa(int(port)))
	p.group.Go(func() error {
		defer close(l.closed)
		defer done()
		defer ln.Close()
		if err := p.server.Serve(ctx, ln, beat); err != nil {
			return fmt.Errorf("cannot serve port %d: %w", port, err)
		}
		if ctx.Err() == nil {
			return fmt.Errorf("cannot serve port %d: the accept loop ended unexpectedly", port)
		}
		return nil
	})
	return nil
}

func newListener(port uint16, fd int) (*tcp.Listener, error) {
	if fd < 0 {
		return nil, fmt.Errorf("cannot serve port %d: the command has no socket", port)
	}
	ln, err := tcp.NewListener(fd)
	if err != nil {
		return nil, fmt.Errorf("cannot serve port %d: %w", port, err)
	}
	return ln, nil
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
	time.AfterFunc(backlogGracePeriod, func() {
		awaitEmptyBacklog(p.ctx, l.ln)
		l.cancel()
	})
	p.group.Go(func() error {
		<-l.closed
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
			awaitEmptyBacklog(ctx, l.ln)
			l.cancel()
			<-l.closed
		}
		cut := p.server.Drain(ctx)
		p.stats.flush(p.sendStats)
		p.send(protocol.Event{Drained: &protocol.Drained{Cut: cut}})
		return nil
	})
}

// awaitEmptyBacklog returns when the accept loop has accepted all waiting
// connections, or after backlogGracePeriod. Closing a listener resets the
// connections in its backlog.
func awaitEmptyBacklog(ctx context.Context, ln *tcp.Listener) {
	ctx, cancel := context.WithTimeout(ctx, backlogGracePeriod)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for backlogLength(ln) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// backlogLength returns the number of connections that wait to be accepted. The
// kernel reports it in tcpi_unacked of a listening socket (net/ipv4/tcp.c,
// tcp_get_info).
func backlogLength(ln *tcp.Listener) uint32 {
	raw, err := ln.SyscallConn()
	if err != nil {
		return 0
	}
	var waiting uint32
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			waiting = info.Unacked
		}
	})
	return waiting
}

// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/heartbeat"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/viptest"
)

// aliveInterval is the shortest time between two heartbeats to the controller. An idle event
// loop reports every 5 s.
const aliveInterval = time.Second

// Run executes the commands of the controller until it closes the connection, and
// then returns nil. Connections in flight are closed. The controller drains them
// first if they must end in order.
func Run(ctx context.Context, conn *wire.Child) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	p := &process{
		ctx: ctx, group: group, conn: conn,
		stats: newStatsCollector(), upstream: upstream.New(), listening: make(map[uint16]int),
	}
	var err error
	if p.server, err = server.New(&protocol.Configure{MaxConnections: 1}, p.upstream, p.stats); err != nil {
		cancel()
		return err
	}
	monitor := heartbeat.NewMonitor(aliveInterval, func() {
		p.stats.flush(p.sendStats)
		p.send(protocol.Event{Heartbeat: &protocol.Heartbeat{}})
	})
	// At the end of this process, no event waits for a controller that does not read.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	group.Go(func() error { return monitor.Run(ctx) })
	group.Go(func() error {
		p.stats.run(ctx, p.sendStats)
		return nil
	})
	group.Go(func() error {
		defer cancel()
		return p.runCommands()
	})
	// An event loop keeps its processor of the scheduler while it waits briefly. All other
	// goroutines share one more: with two, their threads wake each other for little work.
	runtime.GOMAXPROCS(p.server.Loops() + 1)
	group.Go(func() error { return p.server.Run(ctx, monitor.Source) })
	err = group.Wait()
	p.stopping.Wait()
	p.upstream.Close()
	return err
}

// process is the state of the proxy process. It belongs to the goroutine that runs
// commands, except for the parts that are safe for concurrent use.
type process struct {
	ctx       context.Context // ends with the connection to the controller
	group     *errgroup.Group
	conn      *wire.Child
	stats     *statsCollector
	server    *server.Server
	upstream  *upstream.Client
	settings  upstream.Settings // the current ones
	listening map[uint16]int    // sockets by port
	stopping  sync.WaitGroup    // ports in their grace period
}

// send sends an event to the controller, and waits while the controller does not read.
// Without a working connection to the controller, this process ends. No event loop calls
// it: clients are served meanwhile.
func (p *process) send(e protocol.Event) {
	if err := p.conn.Send(e); err != nil {
		_ = p.conn.Close()
	}
}

// sendStats reports what happened. The controller rejects invalid stats; they
// would be a defect of this program. They are then replaced by an error count, and
// the proxy continues.
func (p *process) sendStats(s *protocol.Stats) {
	if err := s.Validate(); err != nil {
		s = &protocol.Stats{AcceptFailures: 1, LastAcceptErrno: uint16(unix.EBADMSG)}
	}
	p.send(protocol.Event{Stats: s})
}

func (p *process) runCommands() error {
	for {
		var command protocol.Command
		fd, err := p.conn.Receive(&command)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		if err := p.runCommand(&command, fd); err != nil {
			return err
		}
	}
}

// runCommand runs a command. fd is the descriptor that came with it, or negative.
func (p *process) runCommand(c *protocol.Command, fd int) error {
	if c.Listen == nil && fd >= 0 {
		return errors.Join(errors.New("unexpected descriptor with a command"), unix.Close(fd))
	}
	switch {
	case c.Configure != nil:
		// The server does not need its credentials.
		p.settings.Egress, c.Configure.Egress = c.Configure.Egress, ingress.Egress{}
		p.server.Update(c.Configure)
		p.settings.Upstream, p.settings.MaxConnections = c.Configure.Upstream, c.Configure.MaxConnections
		p.upstream.Update(p.settings)
	case c.CAs != nil:
		p.settings.TrustedCAs = upstream.NewTrustedCAs(c.CAs.Roots)
		p.upstream.Update(p.settings)
	case c.Listen != nil:
		return p.listen(c.Listen.Port, fd)
	case c.StopListening != nil:
		p.stopListening(c.StopListening.Port)
	case c.Drain != nil:
		p.drain(c.Drain.Budget)
	case c.SelfTest != nil:
		p.server.AnnounceSelfTest(*c.SelfTest)
		p.send(protocol.Event{Flushed: &protocol.Flushed{}})
	case c.Flush != nil:
		p.stats.flush(p.sendStats)
		p.send(protocol.Event{Flushed: &protocol.Flushed{}})
	case c.TestVIPs != nil:
		p.group.Go(func() error {
			p.send(protocol.Event{VIPsTested: &protocol.VIPsTested{Results: viptest.Test(p.ctx, c.TestVIPs.VIPs)}})
			return nil
		})
	case c.ProbeIngress != nil:
		p.group.Go(func() error {
			p.send(protocol.Event{IngressProbed: &protocol.IngressProbed{Results: p.upstream.Probe(p.ctx)}})
			return nil
		})
	}
	return nil
}

// RunConfined is Run with a seccomp filter that permits only the system calls of a
// proxy.
func RunConfined(ctx context.Context, conn *wire.Child) error {
	if err := sandbox.Confine(sandbox.Proxy); err != nil {
		return fmt.Errorf("cannot install the seccomp filter: %w", err)
	}
	return Run(ctx, conn)
}

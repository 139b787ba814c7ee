// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/route"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

const (
	// aliveEvery is how often the keeper hears from a gate that is well, at the
	// most; at the least it is what the accept loops promise, 3 s.
	aliveEvery  = time.Second
	probeWithin = 10 * time.Second // all addresses together, which are asked side by side
)

// Run obeys the keeper until it closes the connection, and returns nil then.
// Connections in flight are cut off: the keeper has drained them if it wanted.
func Run(ctx context.Context, conn *protocol.Conn) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	p := &process{ctx: ctx, group: group, conn: conn, tally: newTally(), upstream: upstream.New(), serving: make(map[uint16]*listener)}
	p.gate = server.New(server.Settings{MaxConnections: 1}, ingress{p.upstream}, p.tally)
	p.pulse = systemd.NewPulse(aliveEvery, func() { p.say(protocol.Word{Alive: &protocol.Alive{}}) })
	group.Go(func() error {
		p.tally.report(ctx, p.gate.Stats, p.news)
		return nil
	})
	group.Go(func() error {
		defer cancel()
		return p.obeyAll()
	})
	err := group.Wait()
	p.upstream.Close()
	return err
}

// process is what the front door's process consists of. The goroutine that
// obeys has it for its own, but for what is safe for all by itself.
type process struct {
	ctx      context.Context // ends with the connection to the keeper
	group    *errgroup.Group
	conn     *protocol.Conn
	tally    *tally
	gate     *server.Gate
	upstream *upstream.Client
	way      route.Way // that is in force
	pulse    *systemd.Watchdog
	serving  map[uint16]*listener
	leaving  []*listener // that are accepted from for a moment more
}

// say tells the keeper a word. A connection that does not take it is of no use
// any more, and this process ends with it.
func (p *process) say(w protocol.Word) {
	if err := p.conn.Send(w, -1); err != nil {
		_ = p.conn.Close()
	}
}

// news tells the keeper what has happened. What the keeper would not believe is
// a defect of ours: it costs the news, and not the gate.
func (p *process) news(n *protocol.News) {
	if err := n.Check(); err != nil {
		n = &protocol.News{Failures: 1, LastFailure: uint16(unix.EBADMSG)}
	}
	p.say(protocol.Word{News: n})
}

type received struct {
	order protocol.Order
	fd    int
	err   error
}

func (p *process) obeyAll() error {
	orders := make(chan received)
	go func() {
		for {
			var r received
			r.order, r.fd, r.err = p.conn.ReceiveOrder()
			select {
			case orders <- r:
			case <-p.ctx.Done():
				return
			}
			if r.err != nil {
				return
			}
		}
	}()
	beat, done := p.pulse.Source("orders")
	defer done()
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		beat()
		select {
		case <-p.ctx.Done():
			return nil
		case <-tick.C:
		case r := <-orders:
			if errors.Is(r.err, io.EOF) || errors.Is(r.err, net.ErrClosed) {
				return nil
			}
			if r.err != nil {
				return r.err
			}
			if err := p.obey(r); err != nil {
				return err
			}
		}
	}
}

func (p *process) obey(r received) error {
	o := r.order
	if o.Listen == nil && r.fd >= 0 {
		return errors.Join(errors.New("a descriptor came with an order that takes none"), unix.Close(r.fd))
	}
	switch {
	case o.Configure != nil:
		p.configure(o.Configure)
	case o.Trust != nil:
		p.way.Trust(o.Trust)
		p.upstream.Update(p.way.Settings())
	case o.Egress != nil:
		p.way.Egress(o.Egress)
		if !o.Hold {
			p.upstream.Update(p.way.Settings())
		}
	case o.Listen != nil:
		return p.listen(o.Listen.Port, r.fd)
	case o.Leave != nil:
		p.leave(o.Leave.Port)
	case o.Drain != nil:
		p.drain(o.Drain.Budget)
	case o.Tell != nil:
		p.tally.flush(p.news)
		p.say(protocol.Word{Told: &protocol.Told{}})
	case o.Probe != nil:
		p.group.Go(func() error {
			p.probe()
			return nil
		})
	}
	return nil
}

func (p *process) configure(c *protocol.Configure) {
	p.gate.Update(server.Settings{
		Hosts:          c.Hosts,
		MaxConnections: c.MaxConnections,
		PerSource:      c.PerSource,
		HeadTimeout:    c.HeadTimeout,
		HeadBytes:      c.HeadBytes,
		Timeout:        c.Timeout,
	})
	p.way.Configure(c)
	p.upstream.Update(p.way.Settings())
}

func (p *process) probe() {
	ctx, cancel := context.WithTimeout(p.ctx, probeWithin)
	defer cancel()
	found := []protocol.Reachability{}
	for _, f := range p.upstream.Probe(ctx) {
		r := protocol.Reachability{Addr: cause.Unzoned(f.Addr)}
		if f.Err != nil {
			why := f.Err.Failure()
			r.Failure = &why
		}
		found = append(found, r)
	}
	p.say(protocol.Word{Probed: &protocol.Probed{Found: found}})
}

// RunConfined is Run after giving up every system call that it does not need:
// a process can be the gate, and nothing else, from then on.
func RunConfined(ctx context.Context, conn *protocol.Conn) error {
	if err := sandbox.Confine(sandbox.Proxy); err != nil {
		return fmt.Errorf("confine the gate: %w", err)
	}
	return Run(ctx, conn)
}

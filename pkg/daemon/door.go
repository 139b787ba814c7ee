// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/gate"
	"github.com/http01-proxyd/http01-proxyd/pkg/holder"
	"github.com/http01-proxyd/http01-proxyd/pkg/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// backlogTime is how long a port that is no longer led to goes on accepting: a
// client whose handshake was under way when the table changed is served.
const backlogTime = time.Second

// door holds the front door's listeners. The reconcile loop alone calls its
// methods.
type door struct {
	log      *slog.Logger
	gate     *gate.Gate
	upstream *upstream.Client
	prober   *prober
	watchdog *systemd.Watchdog
	group    *errgroup.Group // gets the accept loops

	config  config.Config
	ingress []netip.Addr
	set     bool
	cut     int // what maxConnections was last said to be cut to
	open    map[uint16]*listener
	leaving map[uint16]*listener // no longer led to, still serving their backlog
}

// listener is one port and its accept loop.
type listener struct {
	ln     *net.TCPListener
	cancel context.CancelFunc // ends the accept loop
	gone   chan struct{}      // closed when the port is free again
}

// Configure implements reconcile.Door.
func (d *door) Configure(c config.Config, ingress []netip.Addr) {
	if d.set && slices.Equal(d.ingress, ingress) && sameForDoor(d.config, c) {
		return
	}
	d.set, d.config, d.ingress = true, c, slices.Clone(ingress)
	d.gate.Update(gateSettings(c, d.affordable(c.Limits.MaxConnections)))
	d.upstream.Update(upstream.Settings{
		Ingress: d.ingress, Port: c.Upstream.Port, ConnectTimeout: c.Upstream.ConnectTimeout,
	})
	d.prober.retarget(d.ingress, c.Upstream.Port)
}

func gateSettings(c config.Config, maxConnections int) gate.Settings {
	return gate.Settings{
		Hosts:          c.Hosts,
		MaxConnections: maxConnections,
		PerSource:      c.Limits.PerSource,
		HeadTimeout:    c.Limits.HeadTimeout,
		HeadBytes:      c.Limits.HeadBytes,
		Timeout:        c.Upstream.Timeout,
	}
}

// reservedDescriptors are kept for everything but challenges.
const reservedDescriptors = 256

// affordable bounds maxConnections by this process's descriptor limit, of which
// a challenge takes two: one to the client and one to the ingress. A client
// that is kept waiting in the backlog is better off than one that is accepted
// and then gets a 502.
func (d *door) affordable(maxConnections int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return maxConnections
	}
	affordable := max(1, (int(min(limit.Cur, math.MaxInt32))-reservedDescriptors)/2)
	if maxConnections <= affordable {
		return maxConnections
	}
	if d.cut == affordable {
		return affordable
	}
	d.cut = affordable
	d.log.Warn(fmt.Sprintf("limits.maxConnections is cut to %d: the descriptor limit is %d; raise LimitNOFILE to %d",
		affordable, limit.Cur, 2*maxConnections+reservedDescriptors), slog.String("event", "limits"))
	return affordable
}

func sameForDoor(a, b config.Config) bool {
	return a.Upstream == b.Upstream && a.Limits == b.Limits && slices.Equal(a.Hosts, b.Hosts)
}

func (l *listener) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// Open implements reconcile.Door. The listener is a wildcard one, since VIPs
// come and go; the table keeps everything but redirected connections off it.
func (d *door) Open(port uint16) error {
	if d.open[port] != nil {
		return nil
	}
	if l := d.leaving[port]; l != nil {
		<-l.gone // within backlogTime
		delete(d.leaving, port)
	}
	ln, err := listen(port)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen on port %d: it is taken by %s: stop that, or set mode: CustomDeployment with a free customDeployment.internalPort", port, holder.OfTCPPort(port))
	}
	if err != nil {
		return fmt.Errorf("listen on port %d: %w", port, err)
	}
	d.serve(port, ln)
	return nil
}

func listen(port uint16) (*net.TCPListener, error) {
	// The conversations are short and bounded: TCP keep-alive would be set up
	// for nothing.
	config := net.ListenConfig{KeepAlive: -1, Control: smallBuffers}
	// No protocol on a public port that the table says nothing about.
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
	if err != nil {
		return nil, err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("the listener is a %T", ln)
	}
	return tcp, nil
}

// socketBuffer bounds what the kernel keeps for one client in each direction:
// a head has 8 KiB, an answer hardly more than its fields. Left to themselves
// the buffers of a few thousand hostile clients would grow to gigabytes.
const socketBuffer = 16 << 10

// smallBuffers is set on the listener, before listen: accepted sockets inherit
// it, and the window is advertised accordingly (tcp(7), SO_RCVBUF).
func smallBuffers(_, _ string, conn syscall.RawConn) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer),
		)
	})
	return errors.Join(err, set)
}

func (d *door) serve(port uint16, ln *net.TCPListener) {
	// The accept loop outlives the group's context: the reconcile loop decides
	// when nobody is led here any more.
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{ln, cancel, make(chan struct{})}
	d.open[port] = l
	beat, done := d.watchdog.Source("accept on port " + strconv.Itoa(int(port)))
	d.group.Go(func() error {
		defer close(l.gone)
		defer done()
		defer ln.Close()
		if err := d.gate.Serve(ctx, ln, beat); err != nil {
			return fmt.Errorf("serve port %d: %w", port, err)
		}
		if ctx.Err() == nil {
			return fmt.Errorf("serve port %d: the accept loop ended by itself", port)
		}
		return nil
	})
}

// Settle implements reconcile.Door. A client whose handshake was under way
// when the table changed still arrives at the old port: it is served for
// backlogTime more.
func (d *door) Settle(port uint16) {
	maps.DeleteFunc(d.leaving, func(_ uint16, l *listener) bool { return l.isGone() })
	for other, l := range d.open {
		if other != port {
			delete(d.open, other)
			d.leaving[other] = l
			time.AfterFunc(backlogTime, l.cancel)
		}
	}
}

// Close implements reconcile.Door.
func (d *door) Close(ctx context.Context) {
	d.set = false
	d.prober.retarget(nil, 0)
	maps.Copy(d.leaving, d.open)
	clear(d.open)
	for port, l := range d.leaving {
		waitBacklog(ctx, l.ln)
		l.cancel()
		<-l.gone
		delete(d.leaving, port)
	}
	if err := d.gate.Drain(ctx); err != nil {
		d.log.Warn("challenges in flight were cut off", slog.String("event", "drain"), slog.Any("error", err))
	}
}

// waitBacklog returns when the accept loop has taken all that was waiting, or
// after backlogTime: closing a listener resets what is left in its backlog.
func waitBacklog(ctx context.Context, ln *net.TCPListener) {
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for backlog(ln) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// backlog is how many connections wait to be accepted: of a listening socket,
// tcpi_unacked is that (net/ipv4/tcp.c, tcp_get_info).
func backlog(ln *net.TCPListener) uint32 {
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

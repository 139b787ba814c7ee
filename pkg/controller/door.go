// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/settings"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// door is the keeper's side of the front door: it has the listening sockets and
// knows what the gate is to do with them, so that a gate that ends costs what it
// had accepted and no more. The reconcile loop calls Configure, Open, Settle and
// Close; warden keeps a gate behind it.
type door struct {
	log     *slog.Logger
	retires func([]netip.Addr, uint16) // called when the ingress changes
	leads   func([]netip.Addr)         // called with the ingress before the gate is told of it; calls Egress

	store *systemd.Store // nil when there is none

	mu        sync.Mutex
	gate      *gateProcess // nil while there is none
	config    config.Config
	ingress   []netip.Addr
	trust     *protocol.Trust // nil until it is known
	set       bool
	egress    protocol.Egress          // of which a gate is told before it is configured
	leading   bool                     // what Egress gets is for the next configuration
	led       *protocol.Egress         // what it got meanwhile
	suspended bool                     // the listening sockets are the next process's
	cut       int                      // what maxConnections was last said to be cut to
	open      map[uint16]int           // the listening sockets that the gate serves, once it is configured
	leaving   map[uint16]chan struct{} // ports that the gate still serves; closed when it is done
	drained   chan string              // gets the end of a drain; nil while none is under way
	probed    chan []protocol.Reachability
	told      []chan struct{} // closed when the gate has told all its news
}

// Configure implements reconcile.Door.
func (d *door) Configure(c config.Config, ingress []netip.Addr) {
	d.lead(ingress)
	d.mu.Lock()
	defer d.mu.Unlock()
	same := d.set && slices.Equal(d.ingress, ingress) && sameForDoor(d.config, c)
	d.follow(!same)
	if same {
		return
	}
	first := !d.set
	d.set, d.config, d.ingress = true, c, slices.Clone(ingress)
	d.order(protocol.Order{Configure: d.configuration()}, -1)
	if first {
		d.serveAll() // what a former process has left
	}
	d.retires(d.ingress, c.Upstream.FirstPort())
}

// lead finds out what of this ingress is reached through a proxy.
func (d *door) lead(ingress []netip.Addr) {
	d.mu.Lock()
	d.leading = true
	d.mu.Unlock()
	d.leads(ingress)
}

// follow tells the gate what lead has found; with hold it counts when the gate is
// configured. It needs mu.
func (d *door) follow(hold bool) {
	led := d.led
	d.leading, d.led = false, nil
	if led == nil || reflect.DeepEqual(d.egress, *led) {
		return
	}
	d.egress = *led
	d.order(protocol.Order{Egress: led, Hold: hold}, -1)
}

// Trust has this trusted for TLS to the ingress, by the gate and those that follow
// it. Nil: there is no TLS.
func (d *door) Trust(t *protocol.Trust) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sameTrust(d.trust, t) {
		return
	}
	if d.trust = t; t != nil {
		d.order(protocol.Order{Trust: t}, -1)
	}
}

// sameTrust spares the gate what it would give its connections up for.
func sameTrust(a, b *protocol.Trust) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.About == b.About && slices.EqualFunc(a.Roots, b.Roots, bytes.Equal)
}

// configuration needs mu.
func (d *door) configuration() *protocol.Configure {
	c := d.config
	o := settings.Configure(c.Upstream, d.ingress)
	o.Hosts = c.Hosts
	o.MaxConnections = d.affordable(c.Limits.MaxConnections)
	o.PerSource = c.Limits.PerSource
	o.HeadTimeout = c.Limits.HeadTimeout
	o.HeadBytes = c.Limits.HeadBytes
	return &o
}

// Egress takes which ingress addresses are reached through a proxy.
func (d *door) Egress(e protocol.Egress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leading {
		d.led = &e
		return
	}
	if reflect.DeepEqual(d.egress, e) {
		return
	}
	d.egress = e
	d.order(protocol.Order{Egress: &e}, -1)
}

// order needs mu. A gate that does not take it is ended by its warden, and the
// next one is told everything.
func (d *door) order(o protocol.Order, fd int) {
	if d.gate == nil {
		return
	}
	switch err := d.gate.Send(o, fd); {
	case errors.Is(err, protocol.ErrTooLarge):
		d.shorten(o, err)
	case err != nil:
		_ = d.gate.Kill()
	}
}

// shorten tells the gate what it can be told of an order that is too large, which
// would be so for the next gate as well: what is to go through a proxy never goes
// directly. It needs mu.
func (d *door) shorten(o protocol.Order, err error) {
	const mend = "shorten upstream.trustedCA, egressProxy.trustedCA or the host's own list of CAs"
	what := "an order to the gate is too large, and not given"
	switch e := o.Egress; {
	case o.Trust != nil:
		what = "the CAs that are trusted for the ingress are too many for the gate, which keeps those that it has: " + mend
	case e != nil && len(e.Proxies.Roots)+len(e.Beyond.Roots) > 0:
		what = "the CAs that are trusted for the egress proxy are too many for the gate, which trusts none of them: " + mend
		d.order(protocol.Order{Egress: &protocol.Egress{Through: e.Through}}, -1)
	}
	d.log.Error(what, slog.String("event", "order"), slog.Any("error", err))
}

// employ gives a new gate all that there is to do.
func (d *door) employ(g *gateProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = g
	if d.trust != nil {
		d.order(protocol.Order{Trust: d.trust}, -1)
	}
	d.order(protocol.Order{Egress: &d.egress}, -1)
	if d.set {
		d.order(protocol.Order{Configure: d.configuration()}, -1)
		d.serveAll()
	}
}

// serveAll gives the gate the listening sockets, unless they are left to the next
// process. What a former gate has changed of them would outlive it: where it cannot be
// taken back, another socket takes the place of the old one, of which the gate serves
// what waits there. It needs mu.
func (d *door) serveAll() {
	if d.suspended {
		return
	}
	for port, old := range maps.Clone(d.open) {
		changed := restore(old)
		if changed == nil {
			d.order(protocol.Order{Listen: &protocol.Listen{Port: port}}, old)
			continue
		}
		d.log.Warn(fmt.Sprintf("the last gate has changed the listening socket on port %d: another takes its place", port), slog.String("event", "listen"), slog.Any("error", changed))
		if _, err := listensOn(old); err == nil {
			d.order(protocol.Order{Listen: &protocol.Listen{Port: port}}, old)
			d.order(protocol.Order{Leave: &protocol.Leave{Port: port}}, -1)
		}
		fresh, err := listenBeside(port, old)
		if err == nil {
			// Before systemd is asked to keep it, which may take seconds.
			d.order(protocol.Order{Listen: &protocol.Listen{Port: port}}, fresh)
		}
		d.release(port, old)
		delete(d.open, port)
		if err != nil {
			d.log.Error(fmt.Sprintf("another socket on port %d cannot be made; trying again with the next look at this host", port), slog.String("event", "listen"), slog.Any("error", err))
			continue
		}
		d.keep(port, fresh)
	}
}

// dismiss takes note of the end of a gate: what it was doing is over.
func (d *door) dismiss() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = nil
	for port, gone := range d.leaving {
		close(gone)
		delete(d.leaving, port)
	}
	d.hasDrained("")
	d.hasProbed(nil)
	d.hasTold()
}

// reservedDescriptors are kept for everything but challenges.
const reservedDescriptors = 256

// affordable bounds maxConnections by the gate's descriptor limit, of which a
// challenge takes two: one to the client and one to the ingress. A client that
// is kept waiting in the backlog is better off than one that is accepted and
// then gets a 502. It needs mu.
func (d *door) affordable(maxConnections int) int {
	needed := uint64(2*maxConnections + reservedDescriptors) //nolint:gosec // bounded by pkg/config
	limit, err := d.descriptorLimit(needed)
	if err != nil || limit >= needed {
		return maxConnections
	}
	affordable := max(1, (int(limit)-reservedDescriptors)/2) //nolint:gosec // below needed
	if d.cut != affordable {
		d.cut = affordable
		d.log.Warn(fmt.Sprintf("limits.maxConnections is cut to %d: the descriptor limit is %d; raise LimitNOFILE to %d",
			affordable, limit, needed), slog.String("event", "limits"))
	}
	return affordable
}

// descriptorLimit raises the gate's limit to what it needs, if this process may
// (root's may), and returns what it is. It needs mu.
func (d *door) descriptorLimit(needed uint64) (uint64, error) {
	pid := 0 // this process, whose limit the gate will inherit
	if d.gate != nil {
		pid = d.gate.PID()
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return 0, fmt.Errorf("read the gate's descriptor limit: %w", err)
	}
	if pid == 0 || limit.Cur >= needed {
		return max(limit.Cur, limit.Max), nil
	}
	raised := unix.Rlimit{Cur: needed, Max: max(needed, limit.Max)}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &raised, nil); err == nil {
		return needed, nil
	}
	// Go's runtime raises the limit of a process to this, but not at once.
	return max(limit.Cur, limit.Max), nil
}

func sameForDoor(a, b config.Config) bool {
	return a.Upstream.Equal(b.Upstream) && a.Limits == b.Limits && slices.Equal(a.Hosts, b.Hosts)
}

// Open implements reconcile.Door. The listener is a wildcard one, since VIPs
// come and go; the table keeps everything but redirected connections off it.
func (d *door) Open(port uint16) error {
	d.awaitGone(port)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := d.open[port]; is {
		return nil
	}
	fd, err := d.listen(port)
	if err != nil {
		return err
	}
	d.order(protocol.Order{Listen: &protocol.Listen{Port: port}}, fd)
	return nil
}

// listen makes a listening socket and has it kept. It needs mu.
func (d *door) listen(port uint16) (int, error) {
	fd, err := listen(port)
	if errors.Is(err, unix.EADDRINUSE) {
		return -1, fmt.Errorf("listen on port %d: it is taken by %s: stop that, or set mode: CustomDeployment with a free customDeployment.internalPort", port, socketowner.OfTCPPort(port))
	}
	if err != nil {
		return -1, fmt.Errorf("listen on port %d: %w", port, err)
	}
	d.keep(port, fd)
	return fd, nil
}

// keep has a listening socket kept, here and in the store. It needs mu.
func (d *door) keep(port uint16, fd int) {
	d.open[port] = fd
	if d.store == nil {
		return
	}
	if err := d.store.Keep(storeName(port), fd); err != nil {
		d.log.Warn("a restart of this service will refuse connections", slog.String("event", "store"), slog.Any("error", err))
	}
}

// release closes a listening socket, here and in the store.
func (d *door) release(port uint16, fd int) {
	closeShared(fd)
	if d.store == nil {
		return
	}
	if err := d.store.Drop(storeName(port)); err != nil {
		d.log.Warn("a port stays taken until this service stops", slog.String("event", "store"), slog.Any("error", err))
	}
}

// leaveTime is what a gate that is well takes to leave a port.
const leaveTime = 3 * time.Second

// awaitGone waits until the gate has closed a port that it was to leave.
func (d *door) awaitGone(port uint16) {
	d.mu.Lock()
	gone := d.leaving[port]
	d.mu.Unlock()
	if gone == nil {
		return
	}
	select {
	case <-gone:
	case <-time.After(leaveTime):
	}
}

// Settle implements reconcile.Door. A client whose handshake was under way
// when the table changed still arrives at the old port: the gate serves it for
// a moment more.
func (d *door) Settle(port uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for other, fd := range d.open {
		if other == port {
			continue
		}
		delete(d.open, other)
		if d.gate != nil {
			d.leaving[other] = make(chan struct{})
			d.order(protocol.Order{Leave: &protocol.Leave{Port: other}}, -1)
		}
		d.release(other, fd)
	}
}

// Close implements reconcile.Door.
func (d *door) Close(ctx context.Context) {
	d.finish(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set = false
	// Until now, so that a gate that ends meanwhile finds its backlog again.
	for port, fd := range d.open {
		d.release(port, fd)
		delete(d.open, port)
	}
}

// Suspend implements reconcile.Door. Who comes from now on waits in the backlog
// of a socket that the store keeps.
func (d *door) Suspend(ctx context.Context) {
	d.mu.Lock()
	d.suspended = true
	d.mu.Unlock()
	d.finish(ctx)
}

// finish ends what is in flight.
func (d *door) finish(ctx context.Context) {
	d.retires(nil, 0)
	if said := d.drain(ctx); said != "" {
		d.log.Warn("challenges in flight were cut off", slog.String("event", "drain"), slog.String("error", said))
	}
}

// drain has the gate close every port and end what is in flight, and returns
// what was not ended.
func (d *door) drain(ctx context.Context) string {
	budget := time.Minute
	if deadline, bounded := ctx.Deadline(); bounded {
		budget = time.Until(deadline)
	}
	d.mu.Lock()
	ended := make(chan string, 1)
	if d.gate == nil {
		ended <- ""
	} else {
		d.drained = ended
		d.order(protocol.Order{Drain: &protocol.Drain{Budget: budget}}, -1)
	}
	d.mu.Unlock()
	select {
	case said := <-ended:
		return said
	case <-time.After(budget + time.Second): // the gate's own bound comes first
		return "the gate does not answer"
	}
}

// hasDrained needs mu.
func (d *door) hasDrained(said string) {
	if d.drained != nil {
		d.drained <- said
		d.drained = nil
	}
}

// hasGone takes note of a port that the gate has left.
func (d *door) hasGone(port uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gone := d.leaving[port]; gone != nil {
		close(gone)
		delete(d.leaving, port)
	}
}

// Probe has the gate look which ingress addresses take connections. Without an
// answer it returns none.
func (d *door) Probe(ctx context.Context) []protocol.Reachability {
	d.mu.Lock()
	if d.gate == nil {
		d.mu.Unlock()
		return nil
	}
	answer := make(chan []protocol.Reachability, 1)
	d.probed = answer
	d.order(protocol.Order{Probe: &protocol.Probe{}}, -1)
	d.mu.Unlock()
	select {
	case found := <-answer:
		return found
	case <-ctx.Done():
		return nil
	}
}

// hasProbed needs mu.
func (d *door) hasProbed(found []protocol.Reachability) {
	if d.probed != nil {
		d.probed <- found
		d.probed = nil
	}
}

// refreshTime is what a gate that is well takes to tell its news.
const refreshTime = 500 * time.Millisecond

// Refresh returns when the gate has told what has happened so far: it tells its
// news with pauses.
func (d *door) Refresh() {
	d.mu.Lock()
	if d.gate == nil {
		d.mu.Unlock()
		return
	}
	told := make(chan struct{})
	d.told = append(d.told, told)
	d.order(protocol.Order{Tell: &protocol.Tell{}}, -1)
	d.mu.Unlock()
	select {
	case <-told:
	case <-time.After(refreshTime):
	}
}

// hasTold needs mu.
func (d *door) hasTold() {
	for _, told := range d.told {
		close(told)
	}
	d.told = nil
}

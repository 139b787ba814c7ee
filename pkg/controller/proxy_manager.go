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
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// proxy is the keeper's side of the front door: it has the listening sockets and
// knows what the gate is to do with them, so that a gate that ends costs what it
// had accepted and no more. The reconcile loop calls Configure, Open, Settle and
// Close; warden keeps a gate behind it.
type proxyManager struct {
	log              *slog.Logger
	onUpstreamChange func([]netip.Addr, uint16) // called when the ingress changes

	store *systemd.DescriptorStore // nil when there is none

	mu                 sync.Mutex
	process            *proxyProcess // nil while there is none
	config             config.Config
	ingress            []netip.Addr
	cas                *ingress.CABundle // nil until it is known
	configured         bool
	egress             egressDecision
	nextEgress         *egressDecision          // newer than the upstream settings in force
	suspended          bool                     // the listening sockets are the next process's
	reducedConnections int                      // what maxConnections was last said to be cut to
	listeners          map[uint16]int           // the listening sockets that the gate serves, once it is configured
	closing            map[uint16]chan struct{} // ports that the gate still serves; closed when it is done
	drainResult        chan string              // gets the end of a drain; nil while none is under way
	probeResult        chan []protocol.Reachability
	flushWaiters       []chan struct{} // closed when the gate has told all its news
}

// proxyConfigurator is the proxy as the reconcile loop uses it: an egress decision comes
// with each configuration.
type proxyConfigurator struct {
	*proxyManager

	egress *egressWatcher
}

// Configure implements reconcile.Proxy.
func (p proxyConfigurator) Configure(c config.Config, ingress []netip.Addr) {
	p.proxyManager.Configure(c, ingress, p.egress.setIngress(ingress))
}

// Configure applies the configuration for these ingress addresses, and the egress
// decision that was made for them.
func (d *proxyManager) Configure(c config.Config, ingress []netip.Addr, decision egressDecision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nextEgress != nil && d.nextEgress.generation == decision.generation {
		decision = *d.nextEgress // it was made later
	}
	d.nextEgress = nil
	sameEgress := d.egress.Equal(decision.Egress)
	d.egress = decision
	if d.configured && slices.Equal(d.ingress, ingress) && sameProxyConfig(d.config, c) {
		if !sameEgress {
			d.send(protocol.Command{Egress: &d.egress.Egress}, -1)
		}
		return
	}
	first := !d.configured
	d.configured, d.config, d.ingress = true, c, slices.Clone(ingress)
	d.send(protocol.Command{Configure: d.configureCommand(first || !sameEgress)}, -1)
	if first {
		d.sendListeners() // of a previous process
	}
	d.onUpstreamChange(d.ingress, c.Upstream.InitialPort())
}

// SetTrust has this trusted for TLS to the ingress, by the gate and those that follow
// it. Nil: there is no TLS.
func (d *proxyManager) SetTrust(t *ingress.CABundle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sameCAs(d.cas, t) {
		return
	}
	if d.cas = t; t != nil {
		d.send(protocol.Command{Trust: t}, -1)
	}
}

// sameCAs spares the gate what it would give its connections up for.
func sameCAs(a, b *ingress.CABundle) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Description == b.Description && slices.EqualFunc(a.Roots, b.Roots, bytes.Equal)
}

// configureCommand returns the settings in force, with the egress decision if it has
// changed. The caller holds mu.
func (d *proxyManager) configureCommand(withEgress bool) *protocol.Configure {
	c := &protocol.Configure{
		Hosts:          d.config.Hosts,
		MaxConnections: d.boundConnections(d.config.Limits.MaxConnections),
		PerSource:      d.config.Limits.PerSource,
		HeadTimeout:    d.config.Limits.HeadTimeout,
		HeadBytes:      d.config.Limits.HeadBytes,
		Upstream:       ingress.FromConfig(d.config.Upstream, d.ingress),
	}
	if withEgress {
		c.Egress = &d.egress.Egress
	}
	return c
}

// SetEgress applies a new egress decision. A decision for upstream settings that are
// not in force yet waits for their Configure: with the former settings it could bypass
// the egress proxy.
func (d *proxyManager) SetEgress(e egressDecision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.generation != d.egress.generation {
		d.nextEgress = &e
		return
	}
	if d.egress.Equal(e.Egress) {
		return
	}
	d.egress = e
	d.send(protocol.Command{Egress: &d.egress.Egress}, -1)
}

// last needs mu. A gate that does not take it is ended by its warden, and the
// next one is told everything.
func (d *proxyManager) send(o protocol.Command, fd int) {
	if d.process == nil {
		return
	}
	switch err := d.process.Send(o, fd); {
	case errors.Is(err, protocol.ErrTooLarge):
		d.sendReduced(o, err)
	case err != nil:
		_ = d.process.Kill()
	}
}

// sendReduced tells the gate what it can be told of an order that is too large, which
// would be so for the next gate as well: what is to go through a proxy never goes
// directly. It needs mu.
func (d *proxyManager) sendReduced(o protocol.Command, err error) {
	const mend = "shorten upstream.trustedCA, egressProxy.trustedCA or the host's own list of CAs"
	what := "an order to the gate is too large, and not given"
	switch e := egressOf(&o); {
	case o.Trust != nil:
		what = "the CAs that are trusted for the ingress are too many for the gate, which keeps those that it has: " + mend
	case e != nil && len(e.ProxyCAs.Roots)+len(e.AdditionalCAs.Roots) > 0:
		what = "the CAs that are trusted for the egress proxy are too many for the gate, which trusts none of them: " + mend
		reduced := ingress.Egress{Routes: e.Routes}
		if o.Configure != nil {
			configure := *o.Configure
			configure.Egress = &reduced
			d.send(protocol.Command{Configure: &configure}, -1)
		} else {
			d.send(protocol.Command{Egress: &reduced}, -1)
		}
	}
	d.log.Error(what, slog.String("event", "order"), slog.Any("error", err))
}

// egressOf returns the egress decision of a command; nil: none.
func egressOf(c *protocol.Command) *ingress.Egress {
	if c.Configure != nil {
		return c.Configure.Egress
	}
	return c.Egress
}

// attach gives a new gate all that there is to do.
func (d *proxyManager) attach(g *proxyProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = g
	if d.cas != nil {
		d.send(protocol.Command{Trust: d.cas}, -1)
	}
	if d.configured {
		d.send(protocol.Command{Configure: d.configureCommand(true)}, -1)
		d.sendListeners()
	}
}

// sendListeners gives the gate the listening sockets, unless they are left to the next
// process. What a former gate has changed of them would outlive it: where it cannot be
// taken back, another socket takes the place of the old one, of which the gate serves
// what waits there. It needs mu.
func (d *proxyManager) sendListeners() {
	if d.suspended {
		return
	}
	for port, old := range maps.Clone(d.listeners) {
		changed := resetOptions(old)
		if changed == nil {
			d.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, old)
			continue
		}
		d.log.Warn(fmt.Sprintf("the last gate has changed the listening socket on port %d: another takes its place", port), slog.String("event", "listen"), slog.Any("error", changed))
		if _, err := listeningPort(old); err == nil {
			d.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, old)
			d.send(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
		}
		fresh, err := listenReusePort(port, old)
		if err == nil {
			// Before systemd is asked to keep it, which may take seconds.
			d.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, fresh)
		}
		d.releaseListener(port, old)
		delete(d.listeners, port)
		if err != nil {
			d.log.Error(fmt.Sprintf("another socket on port %d cannot be made; trying again with the next look at this host", port), slog.String("event", "listen"), slog.Any("error", err))
			continue
		}
		d.storeListener(port, fresh)
	}
}

// detach takes note of the end of a gate: what it was doing is over.
func (d *proxyManager) detach() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = nil
	for port, gone := range d.closing {
		close(gone)
		delete(d.closing, port)
	}
	d.recordDrained("")
	d.recordProbed(nil)
	d.recordFlushed()
}

// reservedDescriptors are kept for everything but challenges.
const reservedDescriptors = 256

// boundConnections bounds maxConnections by the gate's descriptor limit, of which a
// challenge takes two: one to the client and one to the ingress. A client that
// is kept waiting in the backlog is better off than one that is accepted and
// then gets a 502. It needs mu.
func (d *proxyManager) boundConnections(maxConnections int) int {
	needed := uint64(2*maxConnections + reservedDescriptors) //nolint:gosec // bounded by pkg/config
	limit, err := d.descriptorLimit(needed)
	if err != nil || limit >= needed {
		return maxConnections
	}
	affordable := max(1, (int(limit)-reservedDescriptors)/2) //nolint:gosec // below needed
	if d.reducedConnections != affordable {
		d.reducedConnections = affordable
		d.log.Warn(fmt.Sprintf("limits.maxConnections is cut to %d: the descriptor limit is %d; raise LimitNOFILE to %d",
			affordable, limit, needed), slog.String("event", "limits"))
	}
	return affordable
}

// descriptorLimit raises the gate's limit to what it needs, if this process may
// (root's may), and returns what it is. It needs mu.
func (d *proxyManager) descriptorLimit(needed uint64) (uint64, error) {
	pid := 0 // this process, whose limit the gate will inherit
	if d.process != nil {
		pid = d.process.PID()
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

func sameProxyConfig(a, b config.Config) bool {
	return a.Upstream.Equal(b.Upstream) && a.Limits == b.Limits && slices.Equal(a.Hosts, b.Hosts)
}

// Open implements reconcile.Door. The listener is a wildcard one, since VIPs
// come and go; the table keeps everything but redirected connections off it.
func (d *proxyManager) Open(port uint16) error {
	d.awaitStopped(port)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := d.listeners[port]; is {
		return nil
	}
	fd, err := d.listen(port)
	if err != nil {
		return err
	}
	d.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, fd)
	return nil
}

// receiveNotifications makes a listening socket and has it kept. It needs mu.
func (d *proxyManager) listen(port uint16) (int, error) {
	fd, err := listen(port)
	if errors.Is(err, unix.EADDRINUSE) {
		return -1, fmt.Errorf("listen on port %d: it is taken by %s: stop that, or set mode: CustomDeployment with a free customDeployment.internalPort", port, socketowner.DescribeTCPPort(port))
	}
	if err != nil {
		return -1, fmt.Errorf("listen on port %d: %w", port, err)
	}
	d.storeListener(port, fd)
	return fd, nil
}

// retainAnswers has a listening socket kept, here and in the store. It needs mu.
func (d *proxyManager) storeListener(port uint16, fd int) {
	d.listeners[port] = fd
	if d.store == nil {
		return
	}
	if err := d.store.Add(storeName(port), fd); err != nil {
		d.log.Warn("a restart of this service will refuse connections", slog.String("event", "store"), slog.Any("error", err))
	}
}

// releaseListener closes a listening socket, here and in the store.
func (d *proxyManager) releaseListener(port uint16, fd int) {
	closeWithoutLinger(fd)
	if d.store == nil {
		return
	}
	if err := d.store.Remove(storeName(port)); err != nil {
		d.log.Warn("a port stays taken until this service stops", slog.String("event", "store"), slog.Any("error", err))
	}
}

// stopListeningTimeout is what a gate that is well takes to leave a port.
const stopListeningTimeout = 3 * time.Second

// awaitStopped waits until the gate has closed a port that it was to leave.
func (d *proxyManager) awaitStopped(port uint16) {
	d.mu.Lock()
	gone := d.closing[port]
	d.mu.Unlock()
	if gone == nil {
		return
	}
	select {
	case <-gone:
	case <-time.After(stopListeningTimeout):
	}
}

// Settle implements reconcile.Door. A client whose handshake was under way
// when the table changed still arrives at the old port: the gate serves it for
// a moment more.
func (d *proxyManager) CloseExcept(port uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for other, fd := range d.listeners {
		if other == port {
			continue
		}
		delete(d.listeners, other)
		if d.process != nil {
			d.closing[other] = make(chan struct{})
			d.send(protocol.Command{StopListening: &protocol.StopListening{Port: other}}, -1)
		}
		d.releaseListener(other, fd)
	}
}

// Close implements reconcile.Door.
func (d *proxyManager) Close(ctx context.Context) {
	d.drainAndLog(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.configured = false
	// Until now, so that a gate that ends meanwhile finds its backlog again.
	for port, fd := range d.listeners {
		d.releaseListener(port, fd)
		delete(d.listeners, port)
	}
}

// Suspend implements reconcile.Door. Who comes from now on waits in the backlog
// of a socket that the store keeps.
func (d *proxyManager) HandOver(ctx context.Context) {
	d.mu.Lock()
	d.suspended = true
	d.mu.Unlock()
	d.drainAndLog(ctx)
}

// drainAndLog ends what is in flight.
func (d *proxyManager) drainAndLog(ctx context.Context) {
	d.onUpstreamChange(nil, 0)
	if said := d.drain(ctx); said != "" {
		d.log.Warn("challenges in flight were cut off", slog.String("event", "drain"), slog.String("error", said))
	}
}

// drain has the gate close every port and end what is in flight, and returns
// what was not ended.
func (d *proxyManager) drain(ctx context.Context) string {
	budget := time.Minute
	if deadline, bounded := ctx.Deadline(); bounded {
		budget = time.Until(deadline)
	}
	d.mu.Lock()
	ended := make(chan string, 1)
	if d.process == nil {
		ended <- ""
	} else {
		d.drainResult = ended
		d.send(protocol.Command{Drain: &protocol.Drain{Budget: budget}}, -1)
	}
	d.mu.Unlock()
	select {
	case said := <-ended:
		return said
	case <-time.After(budget + time.Second): // the gate's own bound comes first
		return "the gate does not answer"
	}
}

// recordDrained needs mu.
func (d *proxyManager) recordDrained(said string) {
	if d.drainResult != nil {
		d.drainResult <- said
		d.drainResult = nil
	}
}

// recordStopped takes note of a port that the gate has left.
func (d *proxyManager) recordStopped(port uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gone := d.closing[port]; gone != nil {
		close(gone)
		delete(d.closing, port)
	}
}

// ProbeUpstreams has the gate look which ingress addresses take connections. Without an
// answer it returns none.
func (d *proxyManager) ProbeUpstreams(ctx context.Context) []protocol.Reachability {
	d.mu.Lock()
	if d.process == nil {
		d.mu.Unlock()
		return nil
	}
	answer := make(chan []protocol.Reachability, 1)
	d.probeResult = answer
	d.send(protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, -1)
	d.mu.Unlock()
	select {
	case found := <-answer:
		return found
	case <-ctx.Done():
		return nil
	}
}

// recordProbed needs mu.
func (d *proxyManager) recordProbed(found []protocol.Reachability) {
	if d.probeResult != nil {
		d.probeResult <- found
		d.probeResult = nil
	}
}

// flushTimeout is what a gate that is well takes to tell its news.
const flushTimeout = 500 * time.Millisecond

// FlushStats returns when the gate has told what has happened so far: it tells its
// news with pauses.
func (d *proxyManager) FlushStats() {
	d.mu.Lock()
	if d.process == nil {
		d.mu.Unlock()
		return
	}
	told := make(chan struct{})
	d.flushWaiters = append(d.flushWaiters, told)
	d.send(protocol.Command{Flush: &protocol.Flush{}}, -1)
	d.mu.Unlock()
	select {
	case <-told:
	case <-time.After(flushTimeout):
	}
}

// recordFlushed needs mu.
func (d *proxyManager) recordFlushed() {
	for _, told := range d.flushWaiters {
		close(told)
	}
	d.flushWaiters = nil
}

// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// microShift is the state of MicroShift on this host.
type microShift struct {
	microshift.Snapshot
	computed microshift.Computed
	err      error // why computed is incomplete
}

// isMicroShift reports whether the host has MicroShift, but neither keepalived nor
// configured VIPs.
func (s observation) isMicroShift() bool {
	return s.microShift.Present && !s.config.VIPs.Explicit() && !s.userManaged && s.staticPod == "" &&
		s.keepalived.Known && !s.keepalived.Stale && errors.Is(s.keepalived.Err, fs.ErrNotExist)
}

// needsNodeAddress reports whether the plan depends on the node address that MicroShift
// selects.
func (s observation) needsNodeAddress() bool {
	return s.isMicroShift() || s.microShift.Present && s.config.MicroShift.ManageAdvertiseAddress
}

// maxFilesNamed bounds the files in a message.
const maxFilesNamed = 3

// pendingRestart returns an error that names the files that changed after MicroShift has
// read them, or nil.
func pendingRestart(changed []string) error {
	if len(changed) == 0 {
		return nil
	}
	names := strings.Join(changed[:min(len(changed), maxFilesNamed)], ", ")
	if more := len(changed) - maxFilesNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s changed since MicroShift was started: it takes effect after systemctl restart microshift", names)
}

// decideMicroShift returns the plan for a MicroShift host: the API has the addresses of
// the node, and the ingress is MicroShift's router. The message always names files that
// are not in effect.
func decideMicroShift(s observation) plan {
	p, m := planMicroShift(s), s.microShift
	if m.Known && m.Err != nil {
		p.messageSuffix = fmt.Sprintf(" (%v; MicroShift's last good configuration stays in use)", m.Err)
	} else if err := pendingRestart(m.ChangedSinceStart); err != nil {
		p.messageSuffix = fmt.Sprintf(" (MicroShift's configuration: %v)", err)
	}
	return p
}

func planMicroShift(s observation) plan {
	m := s.microShift
	none := func(reason report.Reason, format string, args ...any) plan {
		return plan{reason: reason, message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !m.Known:
		return none(report.NoVIPs, "%v", m.Err)
	case m.err != nil:
		return none(report.NoVIPs, "MicroShift: %v", m.err)
	case m.computed.Router.Removed:
		return none(report.UpstreamUnreachable, "MicroShift's ingress.status is Removed, so no router can answer challenges: "+
			"set it to Managed, or set vips.api and vips.ingress for your own router")
	}
	nodes, router := m.computed.NodeIPs, m.computed.Router
	free := slices.DeleteFunc(slices.Clone(nodes), func(a netip.Addr) bool { return router.ListensOn(a, microshift.ChallengePort) })
	led := exclude(free, s.excluded())
	absent := slices.DeleteFunc(slices.Clone(nodes), s.hasAddress)
	p := plan{port: s.config.InternalPort, ingress: m.computed.UpstreamAddresses(), routerHTTP: router.HTTP, routerHTTPS: router.HTTPS}
	switch {
	case len(free) == 0:
		p.reason = report.NotRequired
		p.decision = ownership.Decide(nodes, nodes, nil)
		p.message = fmt.Sprintf("MicroShift's router serves %s, according to its configuration", describePort(nodes, router.HTTP))
	case len(led) == 0 && !m.computed.AdvertiseAddressGiven:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server, the first address after the service network, which is never redirected: "+
			"correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration", joinAddrs(free))
	case len(led) == 0:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server (apiServer.advertiseAddress), which is never redirected: "+
			"delete that key, or configure the router to listen there on port 80", joinAddrs(free))
	case len(exclude(led, absent)) == 0:
		return none(report.NoVIPs, "MicroShift's node address %s is not on this host: %s", joinAddrs(absent), absentNodeAddressFix)
	case len(p.ingress) == 0:
		return none(report.UpstreamUnreachable, "MicroShift's router has no listen address: this host has no address of ingress.listenAddress: correct it in MicroShift's configuration")
	default:
		p.decision = ownership.Decide(led, nil, s.addresses)
		p.decision.NotRequired = exclude(nodes, free)
		p.setServing(" (MicroShift's node address)")
		at := p.withRouterPorts(s.config)
		p.unreachableMessage = fmt.Sprintf("MicroShift's router accepts no connections on %s: oc get pod,service -n openshift-ingress shows whether "+
			"router-default runs and has that address; http01-proxyd check queries it", describePort(p.ingress, at.Upstream.InitialPort()))
		if len(p.decision.Standby) > 0 {
			p.message += ": " + absentNodeAddressFix
		}
	}
	return p
}

// absentNodeAddressFix is the remediation for a node address that the host does not have.
// No other host takes over a node address.
const absentNodeAddressFix = "correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or add that address to a link"

func describePort(addrs []netip.Addr, port uint16) string {
	return fmt.Sprintf("port %d of %s", port, joinAddrs(addrs))
}

// exclude returns the elements of addrs that others does not contain.
func exclude(addrs, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// withRouterPorts returns the configuration with the ports of MicroShift's router, unless
// the configuration sets ports.
func (p plan) withRouterPorts(c config.Config) config.Config {
	if p.routerHTTP != 0 && !c.Upstream.ExplicitPorts.HTTP {
		c.Upstream.Port = p.routerHTTP
	}
	if p.routerHTTPS != 0 && !c.Upstream.ExplicitPorts.HTTPS {
		c.Upstream.HTTPSPort = p.routerHTTPS
	}
	return c
}

// readMicroShift reads MicroShift's configuration and returns the paths to watch.
func (e *observer) readMicroShift(now time.Time) (watch []string, again time.Duration) {
	dir := e.observation.config.MicroShift.Directory
	if e.microShiftState == nil {
		kept := microshift.NewStateFile(e.stateDir)
		e.microShiftState, e.observation.rememberedInternal = &kept, kept.InternalAddresses()
	}
	e.observation.defaultDirInternal = nil
	if dir != e.defaultMicroShiftDir {
		e.observation.defaultDirInternal = microshift.ConfiguredInternalAddresses(e.defaultMicroShiftDir)
	}
	if dir == "" {
		e.microShift, e.microShiftDir, e.observation.microShift = nil, "", microShift{}
		return nil, 0
	}
	if e.microShift == nil || e.microShiftDir != dir {
		e.microShift, e.microShiftDir = microshift.NewReader(dir, e.unitsDir, *e.microShiftState), dir
		e.observation.microShift, e.nodeAddressWait = microShift{}, nodeAddressWait{}
	}
	answer := e.microShift.Read(now)
	e.observation.microShift.Snapshot = answer
	unused := answer.Err
	if unused == nil {
		unused = pendingRestart(answer.ChangedSinceStart)
	}
	e.logOnChange("microshift", "MicroShift's configuration is not used as it is", unused)
	e.logOnChange("microshift-kept", "cannot use MicroShift's configuration that an earlier process saved", answer.RestoreErr)
	if write := e.microShift.Unsaved(); write != nil {
		e.configuration.save("microshift", "configuration that MicroShift has read", write)
	}
	return answer.Watch, answer.RetryAfter
}

// computeMicroShift computes what MicroShift computes on the host in its current state.
func (e *observer) computeMicroShift(links []address.Link, found []address.Address) error {
	m := &e.observation.microShift
	if !m.Present || !m.Known {
		return nil
	}
	h, err := microshift.NewHost(links, found, e.procNetDir)
	if err != nil {
		return err
	}
	m.computed, m.err = e.nodeAddressWait.compute(m.Config, h, time.Now())
	if len(m.computed.Internal) > 0 {
		e.observation.rememberedInternal = m.computed.Internal
	}
	return nil
}

// MicroShiftPlan is the plan of the service on a MicroShift host, for check.
type MicroShiftPlan struct {
	Reason   report.Reason
	Message  string
	Decision ownership.Decision
	Ingress  []netip.Addr
	Config   config.Config // with the router's ports
}

// DecideMicroShift returns the plan of the service on a MicroShift host; err is why
// computed is incomplete.
func DecideMicroShift(c config.Config, a microshift.Snapshot, computed microshift.Computed, err error, addresses []ownership.Address) MicroShiftPlan {
	p := decideMicroShift(observation{config: c, configKnown: true, addresses: addresses, microShift: microShift{a, computed, err}})
	return MicroShiftPlan{Reason: p.reason, Message: p.message + p.messageSuffix, Decision: p.decision, Ingress: p.ingress, Config: p.withRouterPorts(c)}
}

// nodeAddressRetry is the interval of reads while the node address is missing: a new
// default route causes no event.
const nodeAddressRetry = 2 * time.Second

// LoopbackAddresses manages the internal addresses of MicroShift's API server on lo.
type LoopbackAddresses interface {
	// Ensure adds the addresses of want that no link has. It removes the addresses that it
	// has added and that are neither in want nor in stay.
	Ensure(want, stay []netip.Addr) error
}

// loopbackAddresses returns the internal addresses of MicroShift that lo must have, and
// those that are withheld because MicroShift would use them as the node address. The
// addresses before a withheld one are not added either (see loopback.Manager), but
// addresses that the host has stay. known is false while MicroShift's addresses are not
// known.
func (s observation) loopbackAddresses() (want, heldBack []netip.Addr, known bool) {
	m := s.microShift
	if !s.config.MicroShift.ManageAdvertiseAddress || !m.Present || m.computed.AdvertiseAddressGiven {
		return nil, nil, true
	}
	for _, a := range slices.Backward(m.computed.Internal) {
		switch {
		case !s.hasAddress(a) && slices.Contains(m.computed.MisdetectedAsNodeIP, a):
			heldBack = append(heldBack, a)
		case s.hasAddress(a) || len(heldBack) == 0:
			want = append(want, a)
		}
	}
	slices.Reverse(want)
	return want, heldBack, len(m.computed.Internal) > 0
}

// retainedOnLoopback returns the addresses that stay on lo although loopbackAddresses does
// not return them: the configured advertiseAddress may be an address that the service has
// added.
func (s observation) retainedOnLoopback() []netip.Addr {
	if s.config.MicroShift.ManageAdvertiseAddress && s.microShift.Present && s.microShift.computed.AdvertiseAddressGiven {
		return s.microShift.computed.Internal
	}
	return nil
}

// hasAddress reports whether the host has an address.
func (s observation) hasAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool { return a.IP == addr })
}

// hasInternalAddress reports whether an internal address is on a link on which MicroShift
// has it.
func (s observation) hasInternalAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool {
		return a.IP == addr && a.Bits == addr.BitLen() && microshift.IsInternalLink(a.Link)
	})
}

// updateLoopback adds MicroShift's internal addresses to lo if that is configured. It
// returns a note for the message of the state. It changes nothing while the service is
// disabled or MicroShift's addresses are not known.
func (l *Loop) updateLoopback(s observation, all bool) string {
	if !s.configKnown || !s.config.Enabled() {
		return ""
	}
	want, heldBack, known := s.loopbackAddresses()
	if !known {
		return l.loopback.message
	}
	missing := slices.ContainsFunc(want, func(a netip.Addr) bool { return !s.hasInternalAddress(a) })
	next := loopbackState{known: true, want: want, withheld: heldBack}
	if !all && !missing && l.loopback.equal(next) {
		return l.loopback.message
	}
	err := l.Loopback.Ensure(want, s.retainedOnLoopback())
	for _, a := range heldBack {
		err = errors.Join(err, fmt.Errorf("%v, the internal address of MicroShift's API server, is not added to lo: MicroShift would use it as the node address: "+
			"set node.%s in MicroShift's configuration", a, NodeKey(s.microShift.Config, s.microShift.computed, a)))
	}
	if err != nil {
		next.message = "; " + strings.ReplaceAll(err.Error(), "\n", "; ")
		if next.message != l.loopback.message {
			l.Log.Error("MicroShift's internal API address is not on lo", slog.String("event", "advertise-address"), slog.Any("error", err))
		}
	}
	l.loopback = next
	return next.message
}

// NodeKey returns the configuration key of the node address that an internal address would
// replace.
func NodeKey(c microshift.Config, computed microshift.Computed, internal netip.Addr) string {
	if c.NodeIP.IsValid() || internal != computed.Internal[0] {
		return "nodeIPv6"
	}
	return "nodeIP"
}

// loopbackState is the arguments and the result of the last Ensure.
type loopbackState struct {
	known          bool
	want, withheld []netip.Addr
	message        string
}

func (a loopbackState) equal(b loopbackState) bool {
	return a.known == b.known && slices.Equal(a.want, b.want) && slices.Equal(a.withheld, b.withheld)
}

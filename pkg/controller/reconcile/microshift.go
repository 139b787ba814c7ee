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

// microShift is what was seen of a DefaultMicroShiftDir on this host.
type microShift struct {
	microshift.Snapshot
	computed microshift.Computed
	err      error // why computed is not whole
}

// isMicroShift holds for a host where DefaultMicroShiftDir is, and nothing of keepalived, and
// where nobody has given VIPs.
func (s observation) isMicroShift() bool {
	return s.microShift.Present && !s.config.VIPs.Explicit() && !s.userManaged && s.staticPod == "" &&
		s.keepalived.Known && !s.keepalived.Stale && errors.Is(s.keepalived.Err, fs.ErrNotExist)
}

// needsNodeAddress holds where something hangs on the address that DefaultMicroShiftDir takes for
// the node's.
func (s observation) needsNodeAddress() bool {
	return s.isMicroShift() || s.microShift.Present && s.config.MicroShift.ManageAdvertiseAddress
}

// maxFilesNamed is how many files a message names.
const maxFilesNamed = 3

// pendingRestart is about files that were written since DefaultMicroShiftDir has read them; nil without
// any.
func pendingRestart(changed []string) error {
	if len(changed) == 0 {
		return nil
	}
	names := strings.Join(changed[:min(len(changed), maxFilesNamed)], ", ")
	if more := len(changed) - maxFilesNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s changed since MicroShift was started: in force after systemctl restart microshift", names)
}

// decideMicroShift is the plan for such a host: the node's addresses are those of
// the API, and the router is where DefaultMicroShiftDir has it. Whatever it is, it tells of
// files that are not in force.
func decideMicroShift(s observation) plan {
	p, m := planMicroShift(s), s.microShift
	if m.Known && m.Err != nil {
		p.messageSuffix = fmt.Sprintf(" (%v; MicroShift's last good configuration stays in force)", m.Err)
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
		return none(report.UpstreamUnreachable, "MicroShift's ingress.status is Removed, so there is no router that could answer challenges: "+
			"set it to Managed, or give vips.api and vips.ingress for a router of your own")
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
		p.message = fmt.Sprintf("MicroShift's router has %s, by its configuration", describePort(nodes, router.HTTP))
	case len(led) == 0 && !m.computed.AdvertiseAddressGiven:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server, the first one behind the service network, of which nothing is caught: "+
			"correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration", joinAddrs(free))
	case len(led) == 0:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server (apiServer.advertiseAddress), of which nothing is caught: "+
			"leave that key out, or let the router listen there on port 80", joinAddrs(free))
	case len(exclude(led, absent)) == 0:
		return none(report.NoVIPs, "MicroShift's node address %s is not on this host: %s", joinAddrs(absent), absentNodeAddressFix)
	case len(p.ingress) == 0:
		return none(report.UpstreamUnreachable, "MicroShift's router listens nowhere: nothing of ingress.listenAddress is on this host: correct it in MicroShift's configuration")
	default:
		p.decision = ownership.Decide(led, nil, s.addresses)
		p.decision.NotRequired = exclude(nodes, free)
		p.setServing(" (MicroShift's node address)")
		at := p.withRouterPorts(s.config)
		p.unreachableMessage = fmt.Sprintf("MicroShift's router is to answer at %s, and takes no connections: oc get pod,service -n openshift-ingress shows whether "+
			"router-default runs and has that address; http01-proxyd check asks it", describePort(p.ingress, at.Upstream.InitialPort()))
		if len(p.decision.Standby) > 0 {
			p.message += ": " + absentNodeAddressFix
		}
	}
	return p
}

// absentNodeAddressFix is what to do about a node's address that the host does not have: no other
// host ever takes it over from this one.
const absentNodeAddressFix = "correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or put that address on a link"

func describePort(addrs []netip.Addr, port uint16) string {
	return fmt.Sprintf("port %d of %s", port, joinAddrs(addrs))
}

// exclude returns those of addrs that are not among others.
func exclude(addrs, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// withRouterPorts is the configuration with the ports of DefaultMicroShiftDir's router, where the admin
// has not given others.
func (p plan) withRouterPorts(c config.Config) config.Config {
	if p.routerHTTP != 0 && !c.Upstream.ExplicitPorts.HTTP {
		c.Upstream.Port = p.routerHTTP
	}
	if p.routerHTTPS != 0 && !c.Upstream.ExplicitPorts.HTTPS {
		c.Upstream.HTTPSPort = p.routerHTTPS
	}
	return c
}

// readMicroShift reads DefaultMicroShiftDir's configuration and returns what to watch for it.
func (e *observer) readMicroShift(now time.Time) (watch []string, again time.Duration) {
	dir := e.configuration.active.MicroShift.Directory
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
	untaken := answer.Err
	if untaken == nil {
		untaken = pendingRestart(answer.ChangedSinceStart)
	}
	e.logOnChange("microshift", "MicroShift's configuration is not taken as it stands", untaken)
	e.logOnChange("microshift-kept", "what an earlier run has kept of MicroShift's configuration is not taken", answer.RestoreErr)
	if write := e.microShift.Unsaved(); write != nil {
		e.configuration.save("microshift", "configuration that MicroShift has read", write)
	}
	return answer.Watch, answer.RetryAfter
}

// computeMicroShift computes what DefaultMicroShiftDir would on the host as it is now.
func (e *observer) computeMicroShift(links []address.Link, found []address.Address) error {
	m := &e.observation.microShift
	if !m.Present || !m.Known {
		return nil
	}
	h, err := MicroShiftHost(links, found, e.procNetDir)
	if err != nil {
		return err
	}
	m.computed, m.err = e.nodeAddressWait.compute(m.Config, h, time.Now())
	if len(m.computed.Internal) > 0 {
		e.observation.rememberedInternal = m.computed.Internal
	}
	return nil
}

// MicroShiftHost is what DefaultMicroShiftDir looks at of a host; routes is the directory in
// which the kernel tells of the default ones.
func MicroShiftHost(links []address.Link, found []address.Address, routes string) (h microshift.Host, err error) {
	for _, l := range links {
		h.Links = append(h.Links, microshift.Link(l))
	}
	for _, a := range found {
		if !a.DADFailed {
			h.Addresses = append(h.Addresses, microshift.Address{IP: a.IP, Bits: a.Bits, Link: a.Link})
		}
	}
	h.DefaultLinks4, h.DefaultLinks6, err = microshift.DefaultRouteLinks(routes)
	return h, err
}

// MicroShiftPlan is what the service does on a DefaultMicroShiftDir host, for those who look at one
// beside it.
type MicroShiftPlan struct {
	Reason   report.Reason
	Message  string
	Decision ownership.Decision
	Ingress  []netip.Addr
	Config   config.Config // with the router's ports
}

// DecideMicroShift decides as the service does on a DefaultMicroShiftDir host, of which err
// says why computed is not whole.
func DecideMicroShift(c config.Config, a microshift.Snapshot, computed microshift.Computed, err error, addresses []ownership.Address) MicroShiftPlan {
	p := decideMicroShift(observation{config: c, configKnown: true, addresses: addresses, microShift: microShift{a, computed, err}})
	return MicroShiftPlan{Reason: p.reason, Message: p.message + p.messageSuffix, Decision: p.decision, Ingress: p.ingress, Config: p.withRouterPorts(c)}
}

// nodeAddressRetry is how soon a node's address is looked for again that is not there
// yet: no event tells of a default route.
const nodeAddressRetry = 2 * time.Second

// Loopback keeps the internal address of DefaultMicroShiftDir's API server on lo.
type LoopbackAddresses interface {
	// Keep puts what is wanted there and is nowhere, and takes away what it has put
	// before and is neither wanted any more nor to stay.
	Ensure(want, stay []netip.Addr) error
}

// loopbackAddresses tells which of DefaultMicroShiftDir's internal addresses are to be on lo, and which
// must not come there, since DefaultMicroShiftDir would take them for the node's. Those before
// one of these do not come either (see advertise.Keeper), but what is on the host
// already stays there. known is false while it cannot be told.
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

// loopbackRetain are the addresses that are not taken from lo where they are, although they are
// not wanted: what the admin gives by hand now may be what was put there before.
func (s observation) retainedOnLoopback() []netip.Addr {
	if s.config.MicroShift.ManageAdvertiseAddress && s.microShift.Present && s.microShift.computed.AdvertiseAddressGiven {
		return s.microShift.computed.Internal
	}
	return nil
}

// hostAddresses reports whether the host has an address.
func (s observation) hasAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool { return a.IP == addr })
}

// hasInternalAddress reports whether an internal address is where DefaultMicroShiftDir has it.
func (s observation) hasInternalAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool {
		return a.IP == addr && a.Bits == addr.BitLen() && microshift.IsInternalLink(a.Link)
	})
}

// updateLoopback keeps DefaultMicroShiftDir's internal addresses on lo, if it is to, and returns
// what the state should say of that. What is not known, or disabled, is left as it is.
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
		err = errors.Join(err, fmt.Errorf("%v, the internal address of MicroShift's API server, is not put on lo: MicroShift would take it for the node's: "+
			"give node.%s in MicroShift's configuration", a, NodeKey(s.microShift.Config, s.microShift.computed, a)))
	}
	if err != nil {
		next.message = "; " + strings.ReplaceAll(err.Error(), "\n", "; ")
		if next.message != l.loopback.message {
			l.Log.Error("MicroShift's internal API address is not kept on lo", slog.String("event", "advertise-address"), slog.Any("error", err))
		}
	}
	l.loopback = next
	return next.message
}

// NodeKey is what gives the node's address that an internal one would be taken for.
func NodeKey(c microshift.Config, computed microshift.Computed, internal netip.Addr) string {
	if c.NodeIP.IsValid() || internal != computed.Internal[0] {
		return "nodeIPv6"
	}
	return "nodeIP"
}

// loopbackState is what was kept last.
type loopbackState struct {
	known          bool
	want, withheld []netip.Addr
	message        string
}

func (a loopbackState) equal(b loopbackState) bool {
	return a.known == b.known && slices.Equal(a.want, b.want) && slices.Equal(a.withheld, b.withheld)
}

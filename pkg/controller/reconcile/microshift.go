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

// microShift is what was seen of a MicroShift on this host.
type microShift struct {
	microshift.Answer
	computed microshift.Computed
	err      error // why computed is not whole
}

// isMicroShift holds for a host where MicroShift is, and nothing of keepalived, and
// where nobody has given VIPs.
func (s sight) isMicroShift() bool {
	return s.microShift.Present && !s.config.VIPs.Explicit() && !s.userManaged && s.staticPod == "" &&
		s.keepalived.Known && !s.keepalived.Stale && errors.Is(s.keepalived.Err, fs.ErrNotExist)
}

// needsNodeAddress holds where something hangs on the address that MicroShift takes for
// the node's.
func (s sight) needsNodeAddress() bool {
	return s.isMicroShift() || s.microShift.Present && s.config.MicroShift.ManageAdvertiseAddress
}

// maxNamed is how many files a message names.
const maxNamed = 3

// pending is about files that were written since MicroShift has read them; nil without
// any.
func pending(changed []string) error {
	if len(changed) == 0 {
		return nil
	}
	names := strings.Join(changed[:min(len(changed), maxNamed)], ", ")
	if more := len(changed) - maxNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s changed since MicroShift was started: in force after systemctl restart microshift", names)
}

// decideMicroShift is the plan for such a host: the node's addresses are those of
// the API, and the router is where MicroShift has it. Whatever it is, it tells of
// files that are not in force.
func decideMicroShift(s sight) plan {
	p, m := decideEdge(s), s.microShift
	if m.Known && m.Err != nil {
		p.besides = fmt.Sprintf(" (%v; MicroShift's last good configuration stays in force)", m.Err)
	} else if err := pending(m.Changed); err != nil {
		p.besides = fmt.Sprintf(" (MicroShift's configuration: %v)", err)
	}
	return p
}

func decideEdge(s sight) plan {
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
	free := slices.DeleteFunc(slices.Clone(nodes), func(a netip.Addr) bool { return router.On(a, microshift.ChallengePort) })
	led := without(free, s.guarded())
	absent := slices.DeleteFunc(slices.Clone(nodes), s.has)
	p := plan{port: s.config.InternalPort, ingress: m.computed.Upstream(), http: router.HTTP, https: router.HTTPS}
	switch {
	case len(free) == 0:
		p.reason = report.NotRequired
		p.decision = ownership.Decide(nodes, nodes, nil)
		p.message = fmt.Sprintf("MicroShift's router has %s, by its configuration", portOf(nodes, router.HTTP))
	case len(led) == 0 && !m.computed.Forced:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server, the first one behind the service network, of which nothing is caught: "+
			"correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration", list(free))
	case len(led) == 0:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server (apiServer.advertiseAddress), of which nothing is caught: "+
			"leave that key out, or let the router listen there on port 80", list(free))
	case len(without(led, absent)) == 0:
		return none(report.NoVIPs, "MicroShift's node address %s is not on this host: %s", list(absent), mendAbsent)
	case len(p.ingress) == 0:
		return none(report.UpstreamUnreachable, "MicroShift's router listens nowhere: nothing of ingress.listenAddress is on this host: correct it in MicroShift's configuration")
	default:
		p.decision = ownership.Decide(led, nil, s.addresses)
		p.decision.NotRequired = without(nodes, free)
		p.serve(" (MicroShift's node address)")
		at := p.lead(s.config)
		p.silent = fmt.Sprintf("MicroShift's router is to answer at %s, and takes no connections: oc get pod,service -n openshift-ingress shows whether "+
			"router-default runs and has that address; http01-proxyd check asks it", portOf(p.ingress, at.Upstream.FirstPort()))
		if len(p.decision.Standby) > 0 {
			p.message += ": " + mendAbsent
		}
	}
	return p
}

// mendAbsent is what to do about a node's address that the host does not have: no other
// host ever takes it over from this one.
const mendAbsent = "correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or put that address on a link"

func portOf(addrs []netip.Addr, port uint16) string {
	return fmt.Sprintf("port %d of %s", port, list(addrs))
}

// without returns those of addrs that are not among others.
func without(addrs, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return slices.Contains(others, a) })
}

// lead is the configuration with the ports of MicroShift's router, where the admin
// has not given others.
func (p plan) lead(c config.Config) config.Config {
	if p.http != 0 && !c.Upstream.PortsGiven.HTTP {
		c.Upstream.Port = p.http
	}
	if p.https != 0 && !c.Upstream.PortsGiven.HTTPS {
		c.Upstream.HTTPSPort = p.https
	}
	return c
}

// readMicroShift reads MicroShift's configuration and returns what to watch for it.
func (e *eyes) readMicroShift(now time.Time) (watch []string, again time.Duration) {
	dir := e.configuration.config.MicroShift.Directory
	if e.kept == nil {
		kept := microshift.NewKeeper(e.stateDir)
		e.kept, e.sight.lastInternal = &kept, kept.Internal()
	}
	e.sight.usualInternal = nil
	if dir != e.usual {
		e.sight.usualInternal = microshift.Internal(e.usual)
	}
	if dir == "" {
		e.microShift, e.microShiftAt, e.sight.microShift = nil, "", microShift{}
		return nil, 0
	}
	if e.microShift == nil || e.microShiftAt != dir {
		e.microShift, e.microShiftAt = microshift.NewReader(dir, e.units, *e.kept), dir
		e.sight.microShift, e.node = microShift{}, nodeAddress{}
	}
	answer := e.microShift.Read(now)
	e.sight.microShift.Answer = answer
	untaken := answer.Err
	if untaken == nil {
		untaken = pending(answer.Changed)
	}
	e.complain("microshift", "MicroShift's configuration is not taken as it stands", untaken)
	e.complain("microshift-kept", "what an earlier run has kept of MicroShift's configuration is not taken", answer.KeepErr)
	e.complain("microshift-keep", "a later start would not know what MicroShift has read", e.microShift.Keep())
	return answer.Watch, answer.RetryAfter
}

// lookAtMicroShift computes what MicroShift would on the host as it is now.
func (e *eyes) lookAtMicroShift(links []address.Link, found []address.Address) error {
	m := &e.sight.microShift
	if !m.Present || !m.Known {
		return nil
	}
	h, err := MicroShiftHost(links, found, e.routes)
	if err != nil {
		return err
	}
	m.computed, m.err = e.node.compute(m.Config, h, time.Now())
	if len(m.computed.Internal) > 0 {
		e.sight.lastInternal = m.computed.Internal
	}
	return nil
}

// MicroShiftHost is what MicroShift looks at of a host; routes is the directory in
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
	h.Default4, h.Default6, err = microshift.DefaultRoutes(routes)
	return h, err
}

// Edge is what the service does on a MicroShift host, for those who look at one
// beside it.
type Edge struct {
	Reason   report.Reason
	Message  string
	Decision ownership.Decision
	Ingress  []netip.Addr
	Config   config.Config // with the router's ports
}

// DecideMicroShift decides as the service does on a MicroShift host, of which err
// says why computed is not whole.
func DecideMicroShift(c config.Config, a microshift.Answer, computed microshift.Computed, err error, addresses []ownership.Address) Edge {
	p := decideMicroShift(sight{config: c, configKnown: true, addresses: addresses, microShift: microShift{a, computed, err}})
	return Edge{Reason: p.reason, Message: p.message + p.besides, Decision: p.decision, Ingress: p.ingress, Config: p.lead(c)}
}

// routeAgain is how soon a node's address is looked for again that is not there
// yet: no event tells of a default route.
const routeAgain = 2 * time.Second

// Internal keeps the internal address of MicroShift's API server on lo.
type Internal interface {
	// Keep puts what is wanted there and is nowhere, and takes away what it has put
	// before and is neither wanted any more nor to stay.
	Keep(want, stay []netip.Addr) error
}

// internal tells which of MicroShift's internal addresses are to be on lo, and which
// must not come there, since MicroShift would take them for the node's. Those before
// one of these do not come either (see advertise.Keeper), but what is on the host
// already stays there. known is false while it cannot be told.
func (s sight) internal() (want, heldBack []netip.Addr, known bool) {
	m := s.microShift
	if !s.config.MicroShift.ManageAdvertiseAddress || !m.Present || m.computed.Forced {
		return nil, nil, true
	}
	for _, a := range slices.Backward(m.computed.Internal) {
		switch {
		case !s.has(a) && slices.Contains(m.computed.Mistaken, a):
			heldBack = append(heldBack, a)
		case s.has(a) || len(heldBack) == 0:
			want = append(want, a)
		}
	}
	slices.Reverse(want)
	return want, heldBack, len(m.computed.Internal) > 0
}

// stays are the addresses that are not taken from lo where they are, although they are
// not wanted: what the admin gives by hand now may be what was put there before.
func (s sight) stays() []netip.Addr {
	if s.config.MicroShift.ManageAdvertiseAddress && s.microShift.Present && s.microShift.computed.Forced {
		return s.microShift.computed.Internal
	}
	return nil
}

// has reports whether the host has an address.
func (s sight) has(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool { return a.IP == addr })
}

// advertises reports whether an internal address is where MicroShift has it.
func (s sight) advertises(addr netip.Addr) bool {
	return slices.ContainsFunc(s.addresses, func(a ownership.Address) bool {
		return a.IP == addr && a.Bits == addr.BitLen() && microshift.HasInternal(a.Link)
	})
}

// advertise keeps MicroShift's internal addresses on lo, if it is to, and returns
// what the state should say of that. What is not known, or disabled, is left as it is.
func (l *Loop) advertise(s sight, all bool) string {
	if !s.configKnown || !s.config.Enabled() {
		return ""
	}
	want, heldBack, known := s.internal()
	if !known {
		return l.advertised.said
	}
	missing := slices.ContainsFunc(want, func(a netip.Addr) bool { return !s.advertises(a) })
	next := advertised{known: true, want: want, heldBack: heldBack}
	if !all && !missing && l.advertised.same(next) {
		return l.advertised.said
	}
	err := l.Internal.Keep(want, s.stays())
	for _, a := range heldBack {
		err = errors.Join(err, fmt.Errorf("%v, the internal address of MicroShift's API server, is not put on lo: MicroShift would take it for the node's: "+
			"give node.%s in MicroShift's configuration", a, NodeKey(s.microShift.Config, s.microShift.computed, a)))
	}
	if err != nil {
		next.said = "; " + strings.ReplaceAll(err.Error(), "\n", "; ")
		if next.said != l.advertised.said {
			l.Log.Error("MicroShift's internal API address is not kept on lo", slog.String("event", "advertise-address"), slog.Any("error", err))
		}
	}
	l.advertised = next
	return next.said
}

// NodeKey is what gives the node's address that an internal one would be taken for.
func NodeKey(c microshift.Config, computed microshift.Computed, internal netip.Addr) string {
	if c.NodeIP.IsValid() || internal != computed.Internal[0] {
		return "nodeIPv6"
	}
	return "nodeIP"
}

// advertised is what was kept last.
type advertised struct {
	known          bool
	want, heldBack []netip.Addr
	said           string
}

func (a advertised) same(b advertised) bool {
	return a.known == b.known && slices.Equal(a.want, b.want) && slices.Equal(a.heldBack, b.heldBack)
}

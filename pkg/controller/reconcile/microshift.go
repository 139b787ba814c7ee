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
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
)

// microShift is the state of MicroShift on this host.
type microShift struct {
	microshift.Snapshot
	computed microshift.Computed
	err      error // why computed is incomplete
}

func (m microShift) state() decision.State {
	return decision.State{Snapshot: m.Snapshot, Computed: m.computed, ComputeErr: m.err}
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

// decideMicroShift returns the plan for a MicroShift host.
func decideMicroShift(s observation) plan {
	p := decision.Decide(s.config, s.microShift.state(), s.excluded(), s.addresses)
	return plan{
		reason: p.Reason, message: p.Message, unreachableMessage: p.UnreachableMessage, messageSuffix: p.MessageSuffix,
		decision: p.Decision, listen: p.Serves, port: s.config.InternalPort, ingress: p.Ingress,
		routerHTTP: p.RouterHTTP, routerHTTPS: p.RouterHTTPS,
	}
}

// withRouterPorts returns the configuration with the ports of MicroShift's router, unless
// the configuration sets ports.
func (p plan) withRouterPorts(c config.Config) config.Config {
	return decision.Plan{RouterHTTP: p.routerHTTP, RouterHTTPS: p.routerHTTPS}.WithRouterPorts(c)
}

// readMicroShift reads MicroShift's configuration and returns the paths to watch.
func (e *observer) readMicroShift(now time.Time) (watch []string, again time.Duration) {
	dir := e.observation.config.MicroShift.Directory
	if e.microShiftState == nil {
		file := microshift.NewStateFile(e.stateDir)
		e.microShiftState, e.observation.rememberedInternal = &file, file.InternalAddresses()
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
		unused = decision.PendingRestart(answer.ChangedSinceStart)
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

// nodeAddressRetry is the interval of reads while the node address is missing: a new
// default route causes no event.
const nodeAddressRetry = 2 * time.Second

// LoopbackAddresses manages the internal addresses of MicroShift's API server on lo.
type LoopbackAddresses interface {
	// Ensure adds the addresses of want that no link has. It removes the addresses that it
	// has added and that are neither in want nor in retain.
	Ensure(want, retain []netip.Addr) error
}

// loopbackAddresses returns the internal addresses of MicroShift that lo must have, and
// those that are withheld because MicroShift would use them as the node address. The
// addresses before a withheld one are not added either (see loopback.Manager), but
// addresses that the host has stay. known is false while MicroShift's addresses are not
// known.
func (s observation) loopbackAddresses() (want, withheld []netip.Addr, known bool) {
	m := s.microShift
	if !s.config.MicroShift.ManageAdvertiseAddress || !m.Present || m.computed.AdvertiseAddressGiven {
		return nil, nil, true
	}
	for _, a := range slices.Backward(m.computed.Internal) {
		switch {
		case !s.hasAddress(a) && slices.Contains(m.computed.MisdetectedAsNodeIP, a):
			withheld = append(withheld, a)
		case s.hasAddress(a) || len(withheld) == 0:
			want = append(want, a)
		}
	}
	slices.Reverse(want)
	return want, withheld, len(m.computed.Internal) > 0
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
	want, withheld, known := s.loopbackAddresses()
	if !known {
		return l.loopback.message
	}
	missing := slices.ContainsFunc(want, func(a netip.Addr) bool { return !s.hasInternalAddress(a) })
	next := loopbackState{known: true, want: want, withheld: withheld}
	if !all && !missing && l.loopback.equal(next) {
		return l.loopback.message
	}
	err := l.Loopback.Ensure(want, s.retainedOnLoopback())
	for _, a := range withheld {
		err = errors.Join(err, fmt.Errorf("%v, the internal address of MicroShift's API server, is not added to lo: MicroShift would use it as the node address: "+
			"set node.%s in MicroShift's configuration", a, decision.NodeKey(s.microShift.Config, s.microShift.computed, a)))
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

// loopbackState is the arguments and the result of the last Ensure.
type loopbackState struct {
	known          bool
	want, withheld []netip.Addr
	message        string
}

func (a loopbackState) equal(b loopbackState) bool {
	return a.known == b.known && slices.Equal(a.want, b.want) && slices.Equal(a.withheld, b.withheld)
}

// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Source is what MicroShift's state on this host is determined from.
type Source struct {
	Service    config.Config     // of the service
	Addresses  []address.Address // of this host
	AddressErr error             // why the addresses are unknown
	Privileged bool
}

// State is the state of MicroShift on this host.
type State struct {
	Source
	decision.State

	Active bool // MicroShift's configuration decides, because there is neither keepalived nor a configured VIP
	plan   decision.Plan
}

// IsKnown reports whether this is a MicroShift host with a known configuration.
func (s State) IsKnown() bool { return s.Present && s.Known }

func (s State) has(addr netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(a address.Address) bool { return a.IP == addr })
}

// Load determines addresses, router and ports like the service does. It returns the service's
// configuration with the router's ports, and the VIPs.
func (s Source) Load(v vips.VIPs) (State, config.Config, vips.VIPs) {
	e := State{Source: s}
	if dir := s.Service.MicroShift.Directory; dir != "" && microshift.Present(dir) {
		e.Active = errors.Is(v.Err, vips.ErrNoNode)
		e.Snapshot = microshift.NewReader(dir, microshift.UnitsDir).Read(time.Now())
	}
	if e.Known {
		e.Computed, e.ComputeErr = s.compute(e.Config)
	}
	// If the links cannot be listed, any link may be one whose name matters, as in the service.
	links, _ := address.Links()
	own := address.NameLinks(s.Addresses, links)
	if !e.Active {
		return e, s.Service, excludeInternal(v, decision.Excluded(e.State, own, nil))
	}
	e.plan = decision.Decide(s.Service, e.State, decision.Excluded(e.State, own, nil), own)
	d := e.plan.Decision
	v = vips.VIPs{MicroShift: true, Decision: d}
	v.VIPs = keepalived.VIPs{Ingress: e.plan.Ingress, API: slices.Concat(d.Held, d.Standby, d.NotRequired)}
	if len(v.API) == 0 {
		v.Err = errors.New(e.message())
	}
	return e, e.plan.WithRouterPorts(s.Service), v
}

// excludeInternal removes the VIPs that the service does not redirect.
func excludeInternal(v vips.VIPs, excluded []netip.Addr) vips.VIPs {
	isExcluded := func(a netip.Addr) bool { return slices.Contains(excluded, a) }
	all := v.API
	v.API = slices.DeleteFunc(slices.Clone(all), isExcluded)
	v.Internal = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !isExcluded(a) })
	if len(v.Internal) > 0 && len(v.API) == 0 && v.Err == nil {
		v.Err = vips.ErrInternalVIP
	}
	return v
}

func (s Source) compute(c microshift.Config) (microshift.Computed, error) {
	if s.AddressErr != nil {
		return microshift.Computed{}, s.AddressErr
	}
	links, err := address.Links()
	if err != nil {
		return microshift.Computed{}, err
	}
	default4, default6, err := route.DefaultLinks()
	if err != nil {
		return microshift.Computed{}, err
	}
	return c.Compute(microshift.NewHost(links, s.Addresses, default4, default6))
}

func (s State) message() string { return s.plan.Message + s.plan.MessageSuffix }

// Fault is the reason for missing VIPs, if it is a fault of MicroShift or its
// configuration.
func (s State) Fault(v vips.VIPs) (f findings.Finding, bad bool) {
	problem := errors.Join(s.Err, s.ComputeErr)
	var id findings.ID
	switch {
	case v.Err == nil, errors.Is(problem, fs.ErrPermission) && !s.Privileged:
		return f, false
	case problem != nil:
		id = findings.MicroShiftConfigInvalid
	case s.Computed.Router.Removed:
		id = findings.MicroShiftRouterRemoved
	case s.plan.Reason == report.UpstreamUnreachable:
		id = findings.MicroShiftRouterNoAddress
	case !slices.ContainsFunc(s.Computed.NodeIPs, s.has):
		id = findings.MicroShiftNodeAddressMissing
	default:
		id = findings.MicroShiftNodeAddressInternal
	}
	return findings.New(id, findings.Values{
		"dir": s.Service.MicroShift.Directory, "error": fmt.Sprint(problem), "node": result.JoinAddresses(s.Computed.NodeIPs),
	}), true
}

// CheckVIPs evaluates the addresses that serve as VIPs on a MicroShift host. port is the port
// of its router.
func (s State) CheckVIPs(v vips.VIPs, port uint16) result.Result {
	if f, bad := s.Fault(v); bad {
		return result.Of(f)
	}
	dir := s.Service.MicroShift.Directory
	switch {
	case v.Err != nil:
		return result.Skip("%v", v.Err)
	case s.plan.Reason == report.NotRequired:
		return result.Pass("%s (from %s)", s.message(), dir)
	}
	return result.Pass("%s; its router is at %s, port %d (from %s)",
		s.message(), result.JoinAddresses(v.Ingress), port, dir)
}

// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/discovery"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// microShiftState is the state of MicroShift on this host.
type microShiftState struct {
	microshift.Snapshot
	active             bool // MicroShift's configuration decides, because there is neither keepalived nor a configured VIP
	computed           microshift.Computed
	err                error // why computed is incomplete
	nodeAddressMissing bool  // no address of the node is on this host
	reason             report.Reason
	message            string
	decision           ownership.Decision
}

func (e *microShiftState) state() decision.State {
	return decision.State{Snapshot: e.Snapshot, Computed: e.computed, ComputeErr: e.err}
}

// microShiftError is the reason why MicroShift's configuration leaves the service
// without a task.
type microShiftError struct {
	id   findings.ID
	text string
	err  error
}

func (e *microShiftError) Error() string { return e.text }

func (e *microShiftError) Unwrap() error { return e.err }

// routesDir is the directory of the kernel's route files.
const routesDir = "/proc/net"

// errInternalVIP: all configured VIPs are internal addresses.
var errInternalVIP = errors.New("the only VIP is the internal address of MicroShift's API server")

// loadMicroShift loads addresses, router and ports like the service: from the
// configuration at MicroShift's start, if the service has stored it.
func (h *host) loadMicroShift(ctx context.Context) {
	stored := microshift.NewStateFile(h.StateDir)
	e := &h.microShiftState
	if dir := h.config.MicroShift.Directory; dir != "" && microshift.Present(dir) {
		e.active = errors.Is(h.vipsErr, discovery.ErrNoNode)
		e.Snapshot = readMicroShiftConfig(ctx, dir, stored)
	}
	if e.Known {
		e.computed, e.err = h.computeMicroShift(e.Config)
	}
	if !e.active {
		h.excludeInternalVIPs(append(stored.InternalAddresses(), microshift.ConfiguredInternalAddresses(config.Default().MicroShift.Directory)...))
		return
	}
	own := ownershipAddresses(h.addresses)
	p := decision.Decide(h.config, e.state(), decision.Excluded(e.state(), own, nil), own)
	e.reason, e.message, e.decision, h.config = p.Reason, p.Message+p.MessageSuffix, p.Decision, p.WithRouterPorts(h.config)
	h.vips, h.vipsErr = keepalived.VIPs{Ingress: p.Ingress}, nil
	e.nodeAddressMissing = !slices.ContainsFunc(e.computed.NodeIPs, h.hasAddress)
	for _, addrs := range [][]netip.Addr{e.decision.Held, e.decision.Standby, e.decision.NotRequired} {
		h.vips.API = append(h.vips.API, addrs...)
	}
	if len(h.vips.API) == 0 {
		h.vipsErr = e.vipsError()
	}
}

// excludeInternalVIPs removes the VIPs that the service does not redirect. last are the
// stored internal addresses.
func (h *host) excludeInternalVIPs(last []netip.Addr) {
	excluded := decision.Excluded(h.microShiftState.state(), ownershipAddresses(h.addresses), last)
	all := h.vips.API
	isExcluded := func(a netip.Addr) bool { return slices.Contains(excluded, a) }
	h.vips.API = slices.DeleteFunc(slices.Clone(all), isExcluded)
	h.internalVIPs = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !isExcluded(a) })
	if len(h.internalVIPs) > 0 && len(h.vips.API) == 0 && h.vipsErr == nil {
		h.vipsErr = errInternalVIP
	}
}

// readMicroShiftConfig reads the files again while they are incomplete.
func readMicroShiftConfig(ctx context.Context, dir string, stored microshift.StateFile) microshift.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, discovery.SettleTimeout)
	defer cancel()
	tick := time.NewTicker(discovery.ReadInterval)
	defer tick.Stop()
	for {
		answer := microshift.NewReader(dir, microshift.UnitsDir, stored).Read(time.Now())
		if answer.Err == nil {
			return answer
		}
		select {
		case <-ctx.Done():
			return answer
		case <-tick.C:
		}
	}
}

func (h *host) computeMicroShift(c microshift.Config) (microshift.Computed, error) {
	if h.addressErr != nil {
		return microshift.Computed{}, h.addressErr
	}
	links, err := address.Links()
	if err != nil {
		return microshift.Computed{}, err
	}
	on, err := microshift.NewHost(links, h.addresses, routesDir)
	if err != nil {
		return microshift.Computed{}, err
	}
	on.AddressesSettled = true // there is only one reading
	return c.Compute(on)
}

// vipsError is the reason why there are no VIPs.
func (e *microShiftState) vipsError() error {
	f := &microShiftError{text: e.message, err: errors.Join(e.Err, e.err), id: findings.MicroShiftConfigInvalid}
	switch {
	case f.err != nil:
	case e.computed.Router.Removed:
		f.id = findings.MicroShiftRouterRemoved
	case e.reason == report.UpstreamUnreachable:
		f.id = findings.MicroShiftRouterNoAddress
	case e.nodeAddressMissing:
		f.id = findings.MicroShiftNodeAddressMissing
	default:
		f.id = findings.MicroShiftNodeAddressInternal
	}
	return f
}

// microShiftFinding is the finding for that reason.
func (h *host) microShiftFinding() (findings.Finding, bool) {
	if e := h.microShiftState; e.Known && e.Err != nil { // the last good one is in use
		return findings.New(findings.MicroShiftConfigInvalid, findings.Values{"dir": h.config.MicroShift.Directory, "error": e.Err.Error()}), true
	}
	var f *microShiftError
	if !errors.As(h.vipsErr, &f) || errors.Is(f, fs.ErrPermission) && !h.privileged {
		return findings.Finding{}, false
	}
	return findings.New(f.id, findings.Values{"dir": h.config.MicroShift.Directory, "error": fmt.Sprint(f.err), "node": joinAddresses(h.microShiftState.computed.NodeIPs)}), true
}

// checkMicroShiftVIPs describes the addresses that serve as VIPs on a MicroShift host.
func (h *host) checkMicroShiftVIPs() Result {
	switch {
	case h.vipsErr != nil:
		return skippedResult("%v", h.vipsErr)
	case h.microShiftState.reason == report.NotRequired:
		return okResult("%s (from %s)", h.microShiftState.message, h.config.MicroShift.Directory)
	}
	return okResult("%s; its router is at %s, port %d (from %s)", h.microShiftState.message, joinAddresses(h.vips.Ingress), h.config.Upstream.InitialPort(), h.config.MicroShift.Directory)
}

// microShiftKnown reports whether this is a MicroShift host with a known configuration.
func (h *host) microShiftKnown() bool { return h.microShiftState.Present && h.microShiftState.Known }

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
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// edge is what was seen of a MicroShift on this host.
type edge struct {
	microshift.Answer
	is       bool // there is neither keepalived nor a VIP given: MicroShift's configuration decides
	computed microshift.Computed
	err      error // why computed is not whole
	absent   bool  // no address of the node's is on this host
	reason   report.Reason
	message  string
	decision ownership.Decision
}

// errMicroShift is why a MicroShift's configuration gives the service nothing to do.
type errMicroShift struct {
	id   findings.ID
	text string
	err  error
}

func (e *errMicroShift) Error() string { return e.text }

func (e *errMicroShift) Unwrap() error { return e.err }

// routesDir is where the kernel tells of the default routes.
const routesDir = "/proc/net"

// errInternalVIP is why there is no VIP where all that were given are guarded.
var errInternalVIP = errors.New("no VIP beside the internal address of MicroShift's API server")

// takeMicroShift takes addresses, router and ports as the service would: by what
// MicroShift has read as it was started, where the service has kept that.
func (h *host) takeMicroShift(ctx context.Context) {
	kept := microshift.NewKeeper(h.StateDir)
	e := &h.edge
	if dir := h.config.MicroShift.Directory; dir != "" && microshift.Present(dir) {
		e.is = errors.Is(h.vipsErr, errNoNode)
		e.Answer = readMicroShift(ctx, dir, kept)
	}
	if e.Known {
		e.computed, e.err = h.compute(e.Config)
	}
	if !e.is {
		h.guard(append(kept.Internal(), microshift.Internal(config.Default().MicroShift.Directory)...))
		return
	}
	p := reconcile.DecideMicroShift(h.config, e.Answer, e.computed, e.err, owned(h.addresses))
	e.reason, e.message, e.decision, h.config = p.Reason, p.Message, p.Decision, p.Config
	h.vips, h.vipsErr = keepalived.VIPs{Ingress: p.Ingress}, nil
	e.absent = !slices.ContainsFunc(e.computed.NodeIPs, h.has)
	for _, addrs := range [][]netip.Addr{e.decision.Held, e.decision.Standby, e.decision.NotRequired} {
		h.vips.API = append(h.vips.API, addrs...)
	}
	if len(h.vips.API) == 0 {
		h.vipsErr = e.fault()
	}
}

// guard takes from the VIPs those of which the service catches nothing; last are the
// internal addresses that it has kept.
func (h *host) guard(last []netip.Addr) {
	guarded := reconcile.ExcludedAddresses(h.edge.Answer, h.edge.computed, owned(h.addresses), last)
	all := h.vips.API
	is := func(a netip.Addr) bool { return slices.Contains(guarded, a) }
	h.vips.API = slices.DeleteFunc(slices.Clone(all), is)
	h.internal = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !is(a) })
	if len(h.internal) > 0 && len(h.vips.API) == 0 && h.vipsErr == nil {
		h.vipsErr = errInternalVIP
	}
}

// readMicroShift reads files again that look half-written.
func readMicroShift(ctx context.Context, dir string, kept microshift.Keeper) microshift.Answer {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		answer := microshift.NewReader(dir, microshift.Units, kept).Read(time.Now())
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

func (h *host) compute(c microshift.Config) (microshift.Computed, error) {
	if h.addressErr != nil {
		return microshift.Computed{}, h.addressErr
	}
	links, err := address.Links()
	if err != nil {
		return microshift.Computed{}, err
	}
	on, err := reconcile.MicroShiftHost(links, h.addresses, routesDir)
	if err != nil {
		return microshift.Computed{}, err
	}
	on.Settled = true // there is one look alone
	return c.Compute(on)
}

// fault is why there is nothing that the service could lead anywhere.
func (e *edge) fault() error {
	f := &errMicroShift{text: e.message, err: errors.Join(e.Err, e.err), id: findings.MicroShiftRefused}
	switch {
	case f.err != nil:
	case e.computed.Router.Removed:
		f.id = findings.MicroShiftNoRouter
	case e.reason == report.UpstreamUnreachable:
		f.id = findings.MicroShiftNowhere
	case e.absent:
		f.id = findings.MicroShiftNodeAbsent
	default:
		f.id = findings.MicroShiftNodeInternal
	}
	return f
}

// edgeFault is the finding for that.
func (h *host) edgeFault() (findings.Finding, bool) {
	if e := h.edge; e.Known && e.Err != nil { // the last good one is in force
		return findings.Find(findings.MicroShiftRefused, "dir", h.config.MicroShift.Directory, "error", e.Err.Error()), true
	}
	var f *errMicroShift
	if !errors.As(h.vipsErr, &f) || errors.Is(f, fs.ErrPermission) && !h.root {
		return findings.Finding{}, false
	}
	return findings.Find(f.id, "dir", h.config.MicroShift.Directory, "error", fmt.Sprint(f.err), "node", list(h.edge.computed.NodeIPs)), true
}

// checkEdgeVIPs tells what stands for VIPs on a MicroShift host.
func (h *host) checkEdgeVIPs() Result {
	switch {
	case h.vipsErr != nil:
		return skipped("%v", h.vipsErr)
	case h.edge.reason == report.NotRequired:
		return fine("%s (from %s)", h.edge.message, h.config.MicroShift.Directory)
	}
	return fine("%s; its router is asked at %s, port %d (from %s)", h.edge.message, list(h.vips.Ingress), h.config.Upstream.InitialPort(), h.config.MicroShift.Directory)
}

// microShift reports whether this is a MicroShift host whose configuration is known.
func (h *host) microShift() bool { return h.edge.Present && h.edge.Known }

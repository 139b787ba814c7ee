// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
)

// checkInternal looks where the addresses are by which pods reach MicroShift's API
// server.
func checkInternal(_ context.Context, h *host) Result {
	e := h.edge
	switch {
	case !e.Known:
		return skipped("MicroShift's configuration is not known: %v", e.Err)
	case len(e.computed.Internal) == 0:
		return skipped("the address is not known: %v", e.err)
	}
	var findings []findings.Finding
	var well, unknown bundle
	internal := e.computed.Internal
	if e.computed.Forced {
		internal = internal[:1] // MicroShift puts no other one anywhere either
	}
	for _, addr := range internal {
		f, text, err := h.judgeInternal(addr, e.computed.Forced)
		switch {
		case err != nil:
			unknown.add(addr, "%v", err)
		case f.ID != "":
			findings = append(findings, f)
		default:
			well.add(addr, "%s", text)
		}
	}
	return found(findings, "%v", &well).but(unknown.String())
}

// judgeInternal judges one of the addresses; forced says that it was given.
func (h *host) judgeInternal(addr netip.Addr, forced bool) (f findings.Finding, text string, err error) {
	if forced {
		links, known := h.linksOf(addr)
		switch {
		case !known:
			return f, "", h.addressErr
		case len(links) == 0:
			return findings.Find(findings.MicroShiftForcedAbsent, "address", addr.String()), "", nil
		}
		return f, "on " + strings.Join(links, " and ") + ", as apiServer.advertiseAddress gives it; nothing is caught of it", nil
	}
	link, err := loopback.Find(addr)
	var taken *loopback.Collision
	switch {
	case errors.As(err, &taken):
		return findings.Find(findings.MicroShiftInternalTaken, "address", addr.String(), "why", taken.Why), "", nil
	case err != nil:
		return f, "", err
	case link == "" && h.heldBack().IsValid():
		return findings.Find(findings.MicroShiftHeldBack, "address", addr.String(), "mistaken", h.heldBack().String(),
			"key", reconcile.NodeKey(h.edge.Config, h.edge.computed, h.heldBack())), "", nil
	case link == "":
		return findings.Find(findings.MicroShiftInternalAbsent, "address", addr.String()), "", nil
	}
	return f, "on " + link + ", the first address behind the service network; nothing is caught of it", nil
}

// heldBack is the address for which the service puts none on lo, if there is one.
func (h *host) heldBack() netip.Addr {
	if h.config.MicroShift.ManageAdvertiseAddress {
		for _, a := range h.edge.computed.Mistaken {
			if !h.has(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// linksOf names the links that have an address.
func (h *host) linksOf(addr netip.Addr) (names []string, known bool) {
	links, err := address.Links()
	if err != nil || h.addressErr != nil {
		return nil, false
	}
	for _, a := range h.addresses {
		if a.IP != addr {
			continue
		}
		if i := slices.IndexFunc(links, func(l address.Link) bool { return l.Index == a.Link }); i >= 0 {
			names = append(names, links[i].Name)
		}
	}
	return names, true
}

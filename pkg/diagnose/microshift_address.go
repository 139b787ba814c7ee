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

// checkInternalAddress looks where the addresses are by which pods reach MicroShift's API
// server.
func checkInternalAddress(_ context.Context, h *host) Result {
	e := h.microShiftState
	switch {
	case !e.Known:
		return skippedResult("MicroShift's configuration is not known: %v", e.Err)
	case len(e.computed.Internal) == 0:
		return skippedResult("the address is not known: %v", e.err)
	}
	var findings []findings.Finding
	var well, unknown groupedTexts
	internal := e.computed.Internal
	if e.computed.AdvertiseAddressGiven {
		internal = internal[:1] // MicroShift puts no other one anywhere either
	}
	for _, addr := range internal {
		f, text, err := h.judgeInternalAddress(addr, e.computed.AdvertiseAddressGiven)
		switch {
		case err != nil:
			unknown.add(addr, "%v", err)
		case f.ID != "":
			findings = append(findings, f)
		default:
			well.add(addr, "%s", text)
		}
	}
	return findingsResult(findings, "%v", &well).withNotChecked(unknown.String())
}

// judgeInternalAddress judges one of the addresses; forced says that it was given.
func (h *host) judgeInternalAddress(addr netip.Addr, forced bool) (f findings.Finding, text string, err error) {
	if forced {
		links, known := h.linkNames(addr)
		switch {
		case !known:
			return f, "", h.addressErr
		case len(links) == 0:
			return findings.New(findings.MicroShiftAdvertiseAddressMissing, "address", addr.String()), "", nil
		}
		return f, "on " + strings.Join(links, " and ") + ", as apiServer.advertiseAddress gives it; nothing is caught of it", nil
	}
	link, err := loopback.FindLink(addr)
	var taken *loopback.Collision
	switch {
	case errors.As(err, &taken):
		return findings.New(findings.MicroShiftInternalAddressConflict, "address", addr.String(), "why", taken.Reason), "", nil
	case err != nil:
		return f, "", err
	case link == "" && h.mistakenNodeAddress().IsValid():
		return findings.New(findings.MicroShiftInternalAddressWithheld, "address", addr.String(), "mistaken", h.mistakenNodeAddress().String(),
			"key", reconcile.NodeKey(h.microShiftState.Config, h.microShiftState.computed, h.mistakenNodeAddress())), "", nil
	case link == "":
		return findings.New(findings.MicroShiftInternalAddressMissing, "address", addr.String()), "", nil
	}
	return f, "on " + link + ", the first address behind the service network; nothing is caught of it", nil
}

// mistakenNodeAddress is the address for which the service puts none on lo, if there is one.
func (h *host) mistakenNodeAddress() netip.Addr {
	if h.config.MicroShift.ManageAdvertiseAddress {
		for _, a := range h.microShiftState.computed.MisdetectedAsNodeIP {
			if !h.hasAddress(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// linkNames names the links that have an address.
func (h *host) linkNames(addr netip.Addr) (names []string, known bool) {
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

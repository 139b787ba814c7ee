// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
)

// checkInternalAddress checks the addresses by which pods reach MicroShift's API
// server.
func checkInternalAddress(_ context.Context, h *host) Result {
	e := h.microShiftState
	switch {
	case !e.Known:
		return skippedResult("MicroShift's configuration is unknown: %v", e.Err)
	case len(e.computed.Internal) == 0:
		return skippedResult("the address is unknown: %v", e.err)
	}
	var findings []findings.Finding
	var texts, unknown groupedTexts
	internal := e.computed.Internal
	if e.computed.AdvertiseAddressGiven {
		internal = internal[:1] // MicroShift adds no other one either
	}
	for _, addr := range internal {
		f, text, err := h.judgeInternalAddress(addr, e.computed.AdvertiseAddressGiven)
		switch {
		case err != nil:
			unknown.add(addr, "%v", err)
		case f.ID != "":
			findings = append(findings, f)
		default:
			texts.add(addr, "%s", text)
		}
	}
	return findingsResult(findings, "%v", &texts).withNotChecked(unknown.String())
}

// judgeInternalAddress evaluates one of the addresses; forced means that it is
// configured.
func (h *host) judgeInternalAddress(addr netip.Addr, forced bool) (f findings.Finding, text string, err error) {
	if forced {
		links, known := h.linkNames(addr)
		switch {
		case !known:
			return f, "", h.addressErr
		case len(links) == 0:
			return findings.New(findings.MicroShiftAdvertiseAddressMissing, findings.Values{"address": addr.String()}), "", nil
		}
		return f, "on " + strings.Join(links, " and ") + " (apiServer.advertiseAddress); not redirected", nil
	}
	link, err := loopback.FindLink(addr)
	var taken *loopback.Collision
	switch {
	case errors.As(err, &taken):
		return findings.New(findings.MicroShiftInternalAddressConflict, findings.Values{"address": addr.String(), "why": taken.Reason}), "", nil
	case err != nil:
		return f, "", err
	case link == "" && h.mistakenNodeAddress().IsValid():
		return findings.New(findings.MicroShiftInternalAddressWithheld, findings.Values{"address": addr.String(), "mistaken": h.mistakenNodeAddress().String(), "key": decision.NodeKey(h.microShiftState.Config, h.microShiftState.computed, h.mistakenNodeAddress())}), "", nil
	case link == "":
		return findings.New(findings.MicroShiftInternalAddressMissing, findings.Values{"address": addr.String()}), "", nil
	}
	return f, "on " + link + " (the first address after the service network); not redirected", nil
}

// mistakenNodeAddress is the address because of which the service adds none to lo, if
// there is one.
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

// linkNames are the links that have an address.
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

// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
)

// CheckInternalAddress checks the addresses by which pods reach MicroShift's API server.
func (s State) CheckInternalAddress() result.Result {
	switch {
	case !s.Known:
		return result.Skip("MicroShift's configuration is unknown: %v", s.Err)
	case len(s.Computed.Internal) == 0:
		return result.Skip("the address is unknown: %v", s.ComputeErr)
	case s.Computed.AdvertiseAddressGiven:
		return s.checkAdvertiseAddress(s.Computed.Internal[0]) // MicroShift adds no other one either
	}
	var all result.Subjects
	for _, addr := range s.Computed.Internal {
		s.judgeInternalAddress(addr, &all)
	}
	return all.Result("")
}

// checkAdvertiseAddress checks the configured address.
func (s State) checkAdvertiseAddress(addr netip.Addr) result.Result {
	var all result.Subjects
	links, known := s.linkNames(addr)
	switch {
	case !known:
		all.Skip(addr, "%v", s.AddressErr)
	case len(links) == 0:
		all.Find(findings.New(findings.MicroShiftAdvertiseAddressMissing, findings.Values{"address": addr.String()}))
	default:
		all.Pass(addr, "on %s (apiServer.advertiseAddress); not redirected", strings.Join(links, " and "))
	}
	return all.Result("")
}

// judgeInternalAddress evaluates one of the addresses.
func (s State) judgeInternalAddress(addr netip.Addr, all *result.Subjects) {
	link, err := loopback.FindLink(addr)
	mistaken := s.mistakenNodeAddress()
	var taken *loopback.Collision
	switch {
	case errors.As(err, &taken):
		all.Find(findings.New(findings.MicroShiftInternalAddressConflict, findings.Values{"address": addr.String(), "why": taken.Reason}))
	case err != nil:
		all.Skip(addr, "%v", err)
	case link == "" && mistaken.IsValid():
		all.Find(findings.New(findings.MicroShiftInternalAddressWithheld, findings.Values{
			"address": addr.String(), "mistaken": mistaken.String(), "key": decision.NodeKey(s.Config, s.Computed, mistaken),
		}))
	case link == "":
		all.Find(findings.New(findings.MicroShiftInternalAddressMissing, findings.Values{"address": addr.String()}))
	default:
		all.Pass(addr, "on %s (the first address after the service network); not redirected", link)
	}
}

// mistakenNodeAddress is the address because of which the service adds none to lo, if
// there is one.
func (s State) mistakenNodeAddress() netip.Addr {
	if s.Service.MicroShift.ManageAdvertiseAddress {
		for _, a := range s.Computed.MisdetectedAsNodeIP {
			if !s.has(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// linkNames are the links that have an address.
func (s State) linkNames(addr netip.Addr) (names []string, known bool) {
	links, err := address.Links()
	if err != nil || s.AddressErr != nil {
		return nil, false
	}
	for _, a := range s.Addresses {
		if a.IP != addr {
			continue
		}
		if i := slices.IndexFunc(links, func(l address.Link) bool { return l.Index == a.Link }); i >= 0 {
			names = append(names, links[i].Name)
		}
	}
	return names, true
}

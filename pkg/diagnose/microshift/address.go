// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
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
		judgeInternalAddress(addr, &all)
	}
	return all.Result("")
}

// checkAdvertiseAddress checks the configured address.
func (s State) checkAdvertiseAddress(addr netip.Addr) result.Result {
	switch {
	case s.AddressErr != nil:
		return result.Skip("%v", s.AddressErr)
	case !s.has(addr):
		return result.Of(findings.New(findings.MicroShiftAdvertiseAddressMissing, findings.Values{"address": addr.String()}))
	}
	return result.Pass("%v: on this host (apiServer.advertiseAddress); not redirected", addr)
}

// judgeInternalAddress evaluates one of the addresses.
func judgeInternalAddress(addr netip.Addr, all *result.Subjects) {
	link, err := loopback.FindLink(addr)
	var taken *loopback.Collision
	switch {
	case errors.As(err, &taken):
		values := findings.Values{"address": addr.String(), "why": taken.Reason}
		all.FindAt(findings.New(findings.MicroShiftInternalAddressConflict, values), addr)
	case err != nil:
		all.Skip(addr, "%v", err)
	case link == "":
		all.FindAt(findings.New(findings.MicroShiftInternalAddressMissing, findings.Values{"address": addr.String()}), addr)
	default:
		all.Pass(addr, "on %s (the first address after the service network); not redirected", link)
	}
}

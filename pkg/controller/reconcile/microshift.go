// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// isMicroShift reports whether the host runs MicroShift, without keepalived and without
// configured VIPs.
func (o observation) isMicroShift() bool {
	return o.microShift.Present && !o.config.VIPs.Explicit() && !o.isBGP() && !o.userManaged && o.staticPod == "" &&
		o.hasNoKeepalivedConfig()
}

// computeMicroShift computes what MicroShift computes on the host in its current state.
func (o *observer) computeMicroShift(links []address.Link, found []address.Address) error {
	m := &o.observation.microShift
	if !m.Present || !m.Known {
		return nil
	}
	default4, default6, err := o.defaultLinks()
	if err != nil {
		return err
	}
	m.Computed, m.ComputeErr = m.Config.Compute(microshift.NewHost(links, found, default4, default6))
	for _, a := range m.Computed.Internal {
		if !slices.Contains(o.observation.rememberedInternal, a) {
			o.observation.rememberedInternal = append(slices.Clip(o.observation.rememberedInternal), a)
		}
	}
	return nil
}

// nodeAddressRetry is the interval of reads while the node address is missing or an
// internal address is not on lo.
const nodeAddressRetry = 2 * time.Second

// LoopbackAddresses manages the internal addresses of MicroShift's API server on lo.
type LoopbackAddresses interface {
	// Ensure adds the addresses of want that no link has. It removes the addresses that it
	// added and that are neither in want nor in retain.
	Ensure(want, retain []netip.Addr) error
}

// loopbackAddresses returns the internal addresses of MicroShift that must be on lo. missingKey
// is the reason why others are not added: MicroShift would use them as the node address.
// Existing addresses stay. known is false while MicroShift's addresses are not known.
func (o observation) loopbackAddresses() (want []netip.Addr, missingKey string, known bool) {
	m := o.microShift
	if !o.config.MicroShift.ManageAdvertiseAddress || !m.Present || m.Computed.AdvertiseAddressGiven {
		return nil, "", true
	}
	for _, a := range m.Computed.Internal {
		if m.Computed.MissingKey == "" || o.hasAddress(a) {
			want = append(want, a)
		}
	}
	if len(want) < len(m.Computed.Internal) {
		missingKey = m.Computed.MissingKey
	}
	return want, missingKey, len(m.Computed.Internal) > 0
}

// retainedOnLoopback returns the addresses that stay on lo although loopbackAddresses does not
// return them: the configured advertiseAddress may be an address that the service added. While
// the files are newer than the running MicroShift, all addresses stay, because it still uses
// its earlier configuration.
func (o observation) retainedOnLoopback() (retained []netip.Addr) {
	m := o.microShift
	if !o.config.MicroShift.ManageAdvertiseAddress || !m.Present {
		return nil
	}
	if m.Computed.AdvertiseAddressGiven {
		retained = slices.Clone(m.Computed.Internal)
	}
	for _, a := range o.addresses {
		if len(m.Newer) > 0 && o.hasInternalAddress(a.IP) {
			retained = append(retained, a.IP)
		}
	}
	return retained
}

// hasAddress reports whether a link of the host has an address.
func (o observation) hasAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(o.addresses, func(a address.Address) bool { return a.IP == addr })
}

// hasInternalAddress reports whether an internal address is on a link where MicroShift expects
// it.
func (o observation) hasInternalAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(o.addresses, func(a address.Address) bool {
		return a.IP == addr && a.Bits == addr.BitLen() && microshift.IsInternalLink(a.LinkName)
	})
}

// updateLoopback adds MicroShift's internal addresses to lo if that is configured. It
// returns a note for the message of the state. It changes nothing while the service is
// disabled or MicroShift's addresses are not known.
func (l *Loop) updateLoopback(s observation, all bool) string {
	if !s.configKnown || !s.config.Enabled() {
		return ""
	}
	want, missingKey, known := s.loopbackAddresses()
	if !known {
		return l.loopbackNote
	}
	missing := slices.ContainsFunc(want, func(a netip.Addr) bool { return !s.hasInternalAddress(a) })
	if !all && !missing && slices.Equal(l.loopbackWant, want) {
		return l.loopbackNote
	}
	err := l.Loopback.Ensure(want, s.retainedOnLoopback())
	if missingKey != "" {
		err = errors.Join(err, fmt.Errorf("the internal address of MicroShift's API server is not added to lo: "+
			"MicroShift would use it as the node address: set %s in MicroShift's configuration", missingKey))
	}
	note := ""
	if err != nil {
		note = "; " + strings.ReplaceAll(err.Error(), "\n", "; ")
		if note != l.loopbackNote {
			l.Log.Error("MicroShift's internal API address is not on lo",
				slog.String("event", "advertise-address"), slog.Any("error", err))
		}
	}
	l.loopbackWant, l.loopbackNote = want, note
	return note
}

// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// markMetric is the metric of the addresses that this service adds ("http"). It does not affect
// routing: a single address on lo needs no route. The kernel keeps it as long as the address
// exists, over restarts and crashes, so no record on disk can become wrong. An address that
// another program deletes and adds again loses the metric and is not removed.
const markMetric = 0x68747470

// Manager adds and removes addresses on lo. It belongs to one goroutine.
type Manager struct{ log *slog.Logger }

// NewManager returns a Manager. It changes nothing yet.
func NewManager(log *slog.Logger) *Manager { return &Manager{log: log} }

// Ensure adds the addresses in want to lo unless they are on another link. It removes other
// addresses that this or an earlier process added, except those in keep. The error names each
// address that cannot be added, with the reason and the remediation. Addresses that exist are
// kept in that case.
func (m *Manager) Ensure(want, keep []netip.Addr) error {
	all, err := address.List()
	if err != nil {
		return err
	}
	removed, err := removeMarked(all, slices.Concat(want, keep))
	for _, addr := range removed {
		m.logChange("removed %v, the internal address of MicroShift's API server, from lo", addr)
	}
	return errors.Join(err, m.addMissing(want, all))
}

// Cleanup removes the addresses that an earlier process added.
func Cleanup() (removed []netip.Addr, err error) {
	all, err := address.List()
	if err != nil {
		return nil, err
	}
	return removeMarked(all, nil)
}

func removeMarked(all []address.Address, keep []netip.Addr) (removed []netip.Addr, err error) {
	var problems []error
	for _, a := range all {
		if a.Link != address.Loopback || a.Bits != a.IP.BitLen() || a.Metric != markMetric || slices.Contains(keep, a.IP) {
			continue
		}
		if err := address.RemoveFromLoopback(a.IP); err != nil {
			problems = append(problems, err)
			continue
		}
		removed = append(removed, a.IP)
	}
	return removed, errors.Join(problems...)
}

// addMissing adds the addresses that are on no link and that no route leads to, the last one
// first. It adds none before an address that cannot be added: a starting MicroShift looks for
// them in order, and after it finds one it does not add the following ones
// (addServiceIPLoopback).
func (m *Manager) addMissing(want []netip.Addr, all []address.Address) error {
	var problems []error
	for _, addr := range slices.Backward(want) {
		link, err := findLink(addr, all)
		if err == nil && link == "" && len(problems) == 0 {
			err = m.addAddress(addr)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (m *Manager) addAddress(addr netip.Addr) error {
	added, err := address.AddToLoopback(addr, markMetric)
	if added {
		m.logChange("added %v, the internal address of MicroShift's API server, to lo", addr)
	}
	return err
}

func (m *Manager) logChange(format string, addr netip.Addr) {
	m.log.Info(fmt.Sprintf(format, addr), slog.String("event", "advertise-address"), slog.String("address", addr.String()))
}

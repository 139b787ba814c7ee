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

// markMetric is the metric of the addresses that were put here: "http". Nothing follows
// from it, since an address of its own on lo needs no route; but it is in the kernel
// as long as the address is, over restarts and crashes, and goes with it, so that
// there is no record that could be wrong. One that somebody else takes away and puts
// there again has no mark, and is his.
const markMetric = 0x68747470

// Manager keeps addresses on lo. It belongs to one goroutine.
type Manager struct{ log *slog.Logger }

// NewManager returns a keeper. It does nothing yet.
func NewManager(log *slog.Logger) *Manager { return &Manager{log: log} }

// Keep has the wanted addresses on lo that are nowhere else, and takes away others
// that it, or an earlier process, has put there, but for those that are to stay. The
// error says what is in the way of which address, and what to do; what is there
// already stays then.
func (k *Manager) Ensure(want, stay []netip.Addr) error {
	all, err := address.List()
	if err != nil {
		return err
	}
	removed, err := removeMarked(all, slices.Concat(want, stay))
	for _, addr := range removed {
		k.logChange(addr, "is taken from lo")
	}
	return errors.Join(err, k.addMissing(want, all))
}

// Cleanup takes away what a process has put that is gone.
func Cleanup() (removed []netip.Addr, err error) {
	all, err := address.List()
	if err != nil {
		return nil, err
	}
	return removeMarked(all, nil)
}

// removeMarked takes from lo what was put there, but for what is to stay.
func removeMarked(all []address.Address, stay []netip.Addr) (removed []netip.Addr, err error) {
	var problems []error
	for _, a := range all {
		if a.Link != address.Loopback || a.Bits != a.IP.BitLen() || a.Metric != markMetric || slices.Contains(stay, a.IP) {
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

// addMissing puts on lo what is nowhere, and to which nothing leads, the last one first, and
// none before one that cannot be there: a MicroShift that starts looks for them in
// their order, and when it finds one it does not put those behind that
// (addServiceIPLoopback).
func (k *Manager) addMissing(want []netip.Addr, all []address.Address) error {
	var problems []error
	for _, addr := range slices.Backward(want) {
		link, err := findLink(addr, all)
		if err == nil && link == "" && len(problems) == 0 {
			err = k.addAddress(addr)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (k *Manager) addAddress(addr netip.Addr) error {
	added, err := address.AddToLoopback(addr, markMetric)
	if added {
		k.logChange(addr, "is on lo now")
	}
	return err
}

func (k *Manager) logChange(addr netip.Addr, what string) {
	k.log.Info(fmt.Sprintf("%v, the internal address of MicroShift's API server, %s", addr, what),
		slog.String("event", "advertise-address"), slog.String("address", addr.String()))
}

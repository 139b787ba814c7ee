// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/rtnl"
)

// Loopback is the index of lo in every network namespace (LOOPBACK_IFINDEX of
// include/net/flow.h).
const Loopback = 1

// AddToLoopback adds a single address, /32 or /128, to lo, with a metric that identifies it. It
// requires CAP_NET_ADMIN. If the address is already on lo, it changes nothing, and added is
// false.
func AddToLoopback(addr netip.Addr, metric uint32) (added bool, err error) {
	err = rtnl.Do(func(c *rtnetlink.Conn) error {
		_, err := c.Execute(messageWithMetric{singleAddressMessage(addr), metric}, unix.RTM_NEWADDR,
			netlink.Request|netlink.Create|netlink.Excl|netlink.Acknowledge)
		return err
	})
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot add %v to lo: %w", addr, err)
	}
	return true, nil
}

// RemoveFromLoopback removes a single address from lo. It returns nil if the address is not on
// lo. It requires CAP_NET_ADMIN.
func RemoveFromLoopback(addr netip.Addr) error {
	err := rtnl.Do(func(c *rtnetlink.Conn) error { return c.Address.Delete(singleAddressMessage(addr)) })
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("cannot remove %v from lo: %w", addr, err)
	}
	return nil
}

// singleAddressMessage returns the same message that MicroShift and `ip address add
// ADDR dev lo` send.
func singleAddressMessage(addr netip.Addr) *rtnetlink.AddressMessage {
	family := uint8(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	return &rtnetlink.AddressMessage{
		Family: family, PrefixLength: uint8(addr.BitLen()), Index: Loopback, //nolint:gosec // 32 or 128
		Scope:      unix.RT_SCOPE_UNIVERSE,
		Attributes: &rtnetlink.AddressAttributes{Address: addr.AsSlice(), Local: addr.AsSlice()},
	}
}

// messageWithMetric is a message with IFA_RT_PRIORITY (Linux 4.18), which the library
// does not support.
type messageWithMetric struct {
	*rtnetlink.AddressMessage
	metric uint32
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (m messageWithMetric) MarshalBinary() ([]byte, error) {
	message, err := m.AddressMessage.MarshalBinary()
	if err != nil {
		return nil, err
	}
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.IFA_RT_PRIORITY, m.metric)
	more, err := attributes.Encode()
	return append(message, more...), err
}

// parseMetric returns IFA_RT_PRIORITY of a message; 0 if it is not set.
func parseMetric(message []byte) (metric uint32, err error) {
	if len(message) < unix.SizeofIfAddrmsg {
		return 0, nil
	}
	attributes, err := netlink.NewAttributeDecoder(message[unix.SizeofIfAddrmsg:])
	if err != nil {
		return 0, err
	}
	for attributes.Next() {
		if attributes.Type() == unix.IFA_RT_PRIORITY {
			metric = attributes.Uint32()
		}
	}
	return metric, attributes.Err()
}

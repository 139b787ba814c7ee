// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Lifetime is how an address is added.
type Lifetime int

// The lifetimes.
const (
	Usable     Lifetime = iota // at once
	Deprecated                 // usable, but not preferred: keepalived adds IPv6 VIPs so
	Tentative                  // after duplicate address detection, of IPv6
)

// addresses adds and removes addresses of the host. Its socket stays open: a command of
// ip(8) for each change takes longer than the interval of a VIP that flaps.
type addresses struct {
	conn  *netlink.Conn
	index []uint32 // of the links, by number
}

func (r *Rig) openAddresses() error {
	return r.Host.InNamespace(func() (err error) {
		for _, name := range []string{FirstLink, SecondLink} {
			link, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("find the link: %w", err)
			}
			r.addresses.index = append(r.addresses.index, uint32(link.Index)) //nolint:gosec // an ifindex is an int32 in the kernel
		}
		if r.addresses.conn, err = netlink.Dial(unix.NETLINK_ROUTE, nil); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		return nil
	})
}

// AddVIP adds an address to a link by number, or replaces its lifetime.
func (r *Rig) AddVIP(vip netip.Addr, link int, l Lifetime) error {
	message, err := r.addresses.message(vip, link, func(e *netlink.AttributeEncoder) {
		if vip.Is6() && l != Tentative {
			e.Uint32(unix.IFA_FLAGS, unix.IFA_F_NODAD)
		}
		if l == Deprecated {
			e.Bytes(unix.IFA_CACHEINFO, cacheInfo(0, math.MaxUint32))
		}
	})
	if err == nil {
		message.Header = netlink.Header{
			Type:  unix.RTM_NEWADDR,
			Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Replace,
		}
		_, err = r.addresses.conn.Execute(message)
	}
	if err != nil {
		return fmt.Errorf("add %v to %s: %w", vip, LinkName(link), err)
	}
	return nil
}

// RemoveVIP removes an address from every link.
func (r *Rig) RemoveVIP(vip netip.Addr) error {
	return errors.Join(r.RemoveVIPFrom(vip, 0), r.RemoveVIPFrom(vip, 1))
}

// RemoveVIPFrom removes an address from a link by number, if it is there.
func (r *Rig) RemoveVIPFrom(vip netip.Addr, link int) error {
	message, err := r.addresses.message(vip, link, func(*netlink.AttributeEncoder) {})
	if err == nil {
		message.Header = netlink.Header{Type: unix.RTM_DELADDR, Flags: netlink.Request | netlink.Acknowledge}
		_, err = r.addresses.conn.Execute(message)
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %v from %s: %w", vip, LinkName(link), err)
	}
	return nil
}

// message returns a message about an address: struct ifaddrmsg and its attributes
// (rtnetlink(7)).
func (a *addresses) message(vip netip.Addr, link int, more func(*netlink.AttributeEncoder)) (netlink.Message, error) {
	family := byte(unix.AF_INET)
	if vip.Is6() {
		family = unix.AF_INET6
	}
	e := netlink.NewAttributeEncoder()
	e.Bytes(unix.IFA_LOCAL, vip.AsSlice())
	e.Bytes(unix.IFA_ADDRESS, vip.AsSlice())
	more(e)
	attributes, err := e.Encode()
	if err != nil {
		return netlink.Message{}, fmt.Errorf("encode an address: %w", err)
	}
	head := binary.NativeEndian.AppendUint32([]byte{family, byte(vip.BitLen()), 0, 0}, a.index[link]) //nolint:gosec // 32 or 128
	return netlink.Message{Data: append(head, attributes...)}, nil
}

// cacheInfo returns struct ifa_cacheinfo with these lifetimes in seconds.
func cacheInfo(preferred, valid uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, preferred)
	b = binary.NativeEndian.AppendUint32(b, valid)
	return append(b, make([]byte, 8)...) // when it was created and updated
}

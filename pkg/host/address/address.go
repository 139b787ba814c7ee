// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"net"
	"net/netip"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

// Address is one address of one link of the host.
type Address struct {
	IP        netip.Addr // the host's own address, unmapped and without a zone
	Bits      int        // prefix length of its subnet; the full length of the address if there is a peer
	Link      uint32     // index of its link
	LinkName  string     // only from NameLinks
	Metric    uint32     // of the route to its subnet; 0: the kernel's default
	Tentative bool       // not usable yet: duplicate address detection is running, and it is not optimistic (RFC 4429)
	DADFailed bool       // duplicate address detection failed: another host uses it
}

// fromMessage converts one message of a dump. ok is false if it contains no address.
func fromMessage(m *rtnetlink.AddressMessage) (a Address, ok bool) {
	if m.Attributes == nil {
		return Address{}, false
	}
	// On a point-to-point link, IFA_ADDRESS is the address of the peer and IFA_LOCAL the
	// address of this host (linux/if_addr.h). For IPv6, IFA_LOCAL exists only if there is a
	// peer.
	ip, ok := toAddr(m.Attributes.Local)
	if !ok {
		ip, ok = toAddr(m.Attributes.Address)
	}
	if !ok {
		return Address{}, false
	}
	// The header only holds 8 bits of the flags. IFA_FLAGS, if present, holds all.
	flags := uint32(m.Flags) | m.Attributes.Flags
	return Address{
		IP:        ip,
		Bits:      prefixLength(m, ip),
		Link:      m.Index,
		Tentative: flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0,
		DADFailed: flags&unix.IFA_F_DADFAILED != 0,
	}, true
}

// prefixLength returns the prefix length of an address of this host. If there is a peer,
// the length in the message belongs to the peer's address.
func prefixLength(m *rtnetlink.AddressMessage, own netip.Addr) int {
	if other, is := toAddr(m.Attributes.Address); is && other != own {
		return own.BitLen()
	}
	return int(m.PrefixLength)
}

func toAddr(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}

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
	IP         netip.Addr // the host's own address, unmapped and without a zone
	Bits       int        // length of its subnet's prefix; that of the whole address where there is a peer
	Link       uint32     // index of the link that carries it
	Metric     uint32     // of the route to its subnet; 0: the kernel's choice
	Tentative  bool       // not usable yet: duplicate address detection runs, and the address is not optimistic (RFC 4429)
	DADFailed  bool       // another host answered for it, so this one does not use it
	Deprecated bool       // preferred lifetime 0: not picked as a source address, but in full use otherwise
	Secondary  bool       // IPv4: another address of the same subnet came first; IPv6: temporary (RFC 8981)
}

// fromMessage converts one message of a dump; ok is false when it carries no
// address.
func fromMessage(m *rtnetlink.AddressMessage) (a Address, ok bool) {
	if m.Attributes == nil {
		return Address{}, false
	}
	// IFA_ADDRESS is the other end's address on a point-to-point link, and
	// IFA_LOCAL is then the own one (linux/if_addr.h). IPv6 gives IFA_LOCAL only
	// where there is a peer.
	ip, ok := toAddr(m.Attributes.Local)
	if !ok {
		ip, ok = toAddr(m.Attributes.Address)
	}
	if !ok {
		return Address{}, false
	}
	// The header has room for 8 flags; IFA_FLAGS, when it is there, has them all.
	flags := uint32(m.Flags) | m.Attributes.Flags
	return Address{
		IP:         ip,
		Bits:       prefixLength(m, ip),
		Link:       m.Index,
		Tentative:  flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0,
		DADFailed:  flags&unix.IFA_F_DADFAILED != 0,
		Deprecated: flags&unix.IFA_F_DEPRECATED != 0,
		Secondary:  flags&unix.IFA_F_SECONDARY != 0,
	}, true
}

// prefixLength is the length of the prefix of an own address: where there is a peer, the
// message has that of the peer's.
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

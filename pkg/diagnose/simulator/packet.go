// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Packet is the first one of a TCP connection to an address of this host.
type Packet struct {
	To      netip.AddrPort
	Dialled uint16 // the port that the client has connected to; another than that of To after a dnat
	Local   bool   // a client on this host sent it
	// Link is the one by which a packet from outside comes; the zero value is one
	// that is not known.
	Link Link
}

// Link is a network link of this host.
type Link struct {
	Index int
	Name  string
}

// loopback is the link by which a host reaches itself.
func loopback() Link { return Link{1, "lo"} }

// From the kernel's headers, where package unix lacks them.
const (
	ipsDstNAT      = 1 << 5 // IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h
	ctStateNew     = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW) there
	packetHost     = 0      // PACKET_HOST of linux/if_packet.h
	fibFlagSource  = unix.NFTA_FIB_F_SADDR
	fibFlagIn      = unix.NFTA_FIB_F_IIF
	lengthOfName   = 16 // IFNAMSIZ
	longest        = 16 // of what one expression loads
	portOffset     = 2  // of the destination port, RFC 9293 section 3.1
	flagsOffset    = 13
	tcpSYN         = 0x02
	tcpECN         = 0xc0
	fragmentOffset = 6 // RFC 791 section 3.1
	protocolV4     = 9
	addressesV4    = 12
	protocolV6     = 6 // RFC 8200 section 3
	addressesV6    = 8
)

func (p Packet) v4() bool { return p.To.Addr().Is4() }

func (p Packet) family() Family {
	if p.v4() {
		return IPv4
	}
	return IPv6
}

// source is the client's address. One on this host takes the address that it
// connects to, since that is the host's own.
func (p Packet) source() bits {
	to := p.To.Addr().AsSlice()
	if p.Local {
		return exact(to...)
	}
	return unknown(len(to), Client)
}

// network is the packet's network header.
func (p Packet) network() bits {
	put := func(h bits, at int, part bits) {
		copy(h.value[at:], part.value)
		copy(h.known[at:], part.known)
	}
	to, from := exact(p.To.Addr().AsSlice()...), p.source()
	if p.v4() {
		h := unknown(20, Client)
		h.value[0], h.known[0] = 0x40, 0xf0
		// Not a fragment: no MF, offset 0; DF may be set.
		h.known[fragmentOffset], h.known[fragmentOffset+1] = 0x3f, 0xff
		put(h, protocolV4, exact(unix.IPPROTO_TCP))
		put(h, addressesV4, from)
		put(h, addressesV4+4, to)
		return h
	}
	h := unknown(40, Client)
	h.value[0], h.known[0] = 0x60, 0xf0
	put(h, protocolV6, exact(unix.IPPROTO_TCP))
	put(h, addressesV6, from)
	put(h, addressesV6+16, to)
	return h
}

// transport is its TCP header.
func (p Packet) transport() bits {
	h := unknown(20, Client)
	binary.BigEndian.PutUint16(h.value[portOffset:], p.To.Port())
	h.known[portOffset], h.known[portOffset+1] = 0xff, 0xff
	h.value[flagsOffset], h.known[flagsOffset] = tcpSYN, ^byte(tcpECN)
	return h
}

// in is the link by which the packet has come, at a hook. On the way out there is
// none.
func (p Packet) in(h Hook) (l Link, known bool) {
	switch {
	case h == Output:
		return Link{}, true
	case p.Local:
		return loopback(), true
	default:
		return p.Link, p.Link != Link{}
	}
}

// out is the link by which it leaves.
func (p Packet) out(h Hook) Link {
	if h == Output {
		return loopback()
	}
	return Link{}
}

// meta is what the meta expression loads (net/netfilter/nft_meta.c).
func (p Packet) meta(key uint32, h Hook) bits {
	in, known := p.in(h)
	switch key {
	case unix.NFT_META_NFPROTO:
		return exact(byte(p.family()))
	case unix.NFT_META_L4PROTO:
		return exact(unix.IPPROTO_TCP)
	case unix.NFT_META_PROTOCOL:
		if p.v4() {
			return exact(0x08, 0x00)
		}
		return exact(0x86, 0xdd)
	case unix.NFT_META_IIF:
		if known {
			return number(uint32(in.Index)) //nolint:gosec // the kernel's numbers of links are positive
		}
		return unknown(4, Opaque)
	case unix.NFT_META_IIFNAME:
		if known {
			return padded(in.Name, lengthOfName)
		}
		return unknown(lengthOfName, Opaque)
	case unix.NFT_META_OIF:
		return number(uint32(p.out(h).Index)) //nolint:gosec // see above
	case unix.NFT_META_OIFNAME:
		return padded(p.out(h).Name, lengthOfName)
	case unix.NFT_META_PKTTYPE:
		if h != Output {
			return exact(packetHost)
		}
		return unknown(1, Opaque)
	default:
		return unknown(longest, Opaque)
	}
}

// conntrack is what the ct expression loads (net/netfilter/nft_ct.c) of a new
// connection.
func (p Packet) conntrack(key uint32) bits {
	switch key {
	case unix.NFT_CT_STATE:
		return number(ctStateNew)
	case unix.NFT_CT_DIRECTION:
		return exact(0)
	case unix.NFT_CT_STATUS:
		b := unknown(4, Opaque)
		b.known = native(ipsDstNAT)
		if p.Dialled != p.To.Port() {
			b.value = native(ipsDstNAT)
		}
		return b
	case unix.NFT_CT_L3PROTOCOL:
		return exact(byte(p.family()))
	case unix.NFT_CT_PROTOCOL:
		return exact(unix.IPPROTO_TCP)
	case unix.NFT_CT_SRC, unix.NFT_CT_SRC_IP, unix.NFT_CT_SRC_IP6:
		return p.source()
	case unix.NFT_CT_DST, unix.NFT_CT_DST_IP, unix.NFT_CT_DST_IP6:
		return exact(p.To.Addr().AsSlice()...)
	case unix.NFT_CT_PROTO_SRC:
		return unknown(2, Client)
	case unix.NFT_CT_PROTO_DST:
		return exact(binary.BigEndian.AppendUint16(nil, p.Dialled)...)
	default:
		return unknown(longest, Opaque)
	}
}

// fib is what the fib expression loads (net/ipv4/netfilter/nft_fib_ipv4.c). To is
// an address of this host, on the packet's link if it comes from outside.
func (p Packet) fib(result, flags uint32, h Hook) bits {
	in, known := p.in(h)
	ownLink := flags&fibFlagIn == 0 || (!p.Local && known && in != Link{})
	switch {
	case result != unix.NFT_FIB_RESULT_ADDRTYPE:
		return unknown(lengthOfName, Client)
	case flags&fibFlagSource != 0 && !p.Local:
		return unknown(4, Client)
	case !ownLink:
		return unknown(4, Opaque)
	default:
		return number(unix.RTN_LOCAL)
	}
}

// swap turns the order of each size bytes around.
func (b bits) swap(size int) bits {
	out := bits{slices.Clone(b.value), slices.Clone(b.known), b.why}
	for i := 0; size > 0 && i+size <= len(out.value); i += size {
		slices.Reverse(out.value[i : i+size])
		slices.Reverse(out.known[i : i+size])
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Packet is the first packet of a TCP connection to an address of this host.
type Packet struct {
	Destination  netip.AddrPort
	OriginalPort uint16 // the port that the client connected to; it differs from Destination after a dnat
	Local        bool   // sent by a client on this host
	// Link is the input link of an external packet; the zero value is unknown.
	Link Link
}

// Link is a network link of this host.
type Link struct {
	Index int
	Name  string
}

// loopbackLink is the link by which a host reaches itself.
func loopbackLink() Link { return Link{1, "lo"} }

// From the kernel's headers, where package unix lacks them.
const (
	ipsDstNAT      = 1 << 5 // IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h
	ctStateNew     = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW) there
	packetHost     = 0      // PACKET_HOST of linux/if_packet.h
	fibFlagSource  = unix.NFTA_FIB_F_SADDR
	fibFlagIn      = unix.NFTA_FIB_F_IIF
	ifNameSize     = 16 // IFNAMSIZ
	maxLoad        = 16 // bytes per expression
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

func (p Packet) is4() bool { return p.Destination.Addr().Is4() }

func (p Packet) family() Family {
	if p.is4() {
		return IPv4
	}
	return IPv6
}

// sourceAddress is the client's address. A client on this host uses the address that it
// connects to, because that is local.
func (p Packet) sourceAddress() maskedBytes {
	to := p.Destination.Addr().AsSlice()
	if p.Local {
		return knownBytes(to...)
	}
	return unknownBytes(len(to), DependsOnClient)
}

// networkHeader is the packet's network header.
func (p Packet) networkHeader() maskedBytes {
	put := func(h maskedBytes, at int, part maskedBytes) {
		copy(h.value[at:], part.value)
		copy(h.known[at:], part.known)
	}
	to, from := knownBytes(p.Destination.Addr().AsSlice()...), p.sourceAddress()
	if p.is4() {
		h := unknownBytes(20, DependsOnClient)
		h.value[0], h.known[0] = 0x40, 0xf0
		// Not a fragment: no MF, offset 0; DF may be set.
		h.known[fragmentOffset], h.known[fragmentOffset+1] = 0x3f, 0xff
		put(h, protocolV4, knownBytes(unix.IPPROTO_TCP))
		put(h, addressesV4, from)
		put(h, addressesV4+4, to)
		return h
	}
	h := unknownBytes(40, DependsOnClient)
	h.value[0], h.known[0] = 0x60, 0xf0
	put(h, protocolV6, knownBytes(unix.IPPROTO_TCP))
	put(h, addressesV6, from)
	put(h, addressesV6+16, to)
	return h
}

// transportHeader is the packet's TCP header.
func (p Packet) transportHeader() maskedBytes {
	h := unknownBytes(20, DependsOnClient)
	binary.BigEndian.PutUint16(h.value[portOffset:], p.Destination.Port())
	h.known[portOffset], h.known[portOffset+1] = 0xff, 0xff
	h.value[flagsOffset], h.known[flagsOffset] = tcpSYN, ^byte(tcpECN)
	return h
}

// inputLink is the input link of the packet at a hook. At the output hook there is
// none.
func (p Packet) inputLink(h Hook) (l Link, known bool) {
	switch {
	case h == Output:
		return Link{}, true
	case p.Local:
		return loopbackLink(), true
	default:
		return p.Link, p.Link != Link{}
	}
}

// outputLink is the output link of the packet.
func (p Packet) outputLink(h Hook) Link {
	if h == Output {
		return loopbackLink()
	}
	return Link{}
}

// meta is the value that the meta expression loads (net/netfilter/nft_meta.c).
func (p Packet) meta(key uint32, h Hook) maskedBytes {
	in, known := p.inputLink(h)
	switch key {
	case unix.NFT_META_NFPROTO:
		return knownBytes(byte(p.family()))
	case unix.NFT_META_L4PROTO:
		return knownBytes(unix.IPPROTO_TCP)
	case unix.NFT_META_PROTOCOL:
		if p.is4() {
			return knownBytes(0x08, 0x00)
		}
		return knownBytes(0x86, 0xdd)
	case unix.NFT_META_IIF:
		if known {
			return knownUint32(uint32(in.Index)) //nolint:gosec // link indexes of the kernel are positive
		}
		return unknownBytes(4, NotSimulated)
	case unix.NFT_META_IIFNAME:
		if known {
			return knownName(in.Name, ifNameSize)
		}
		return unknownBytes(ifNameSize, NotSimulated)
	case unix.NFT_META_OIF:
		return knownUint32(uint32(p.outputLink(h).Index)) //nolint:gosec // see above
	case unix.NFT_META_OIFNAME:
		return knownName(p.outputLink(h).Name, ifNameSize)
	case unix.NFT_META_PKTTYPE:
		if h != Output {
			return knownBytes(packetHost)
		}
		return unknownBytes(1, NotSimulated)
	default:
		return unknownBytes(maxLoad, NotSimulated)
	}
}

// conntrack is the value that the ct expression loads for a new connection
// (net/netfilter/nft_ct.c).
func (p Packet) conntrack(key uint32) maskedBytes {
	switch key {
	case unix.NFT_CT_STATE:
		return knownUint32(ctStateNew)
	case unix.NFT_CT_DIRECTION:
		return knownBytes(0)
	case unix.NFT_CT_STATUS:
		b := unknownBytes(4, NotSimulated)
		b.known = nativeUint32(ipsDstNAT)
		if p.OriginalPort != p.Destination.Port() {
			b.value = nativeUint32(ipsDstNAT)
		}
		return b
	case unix.NFT_CT_L3PROTOCOL:
		return knownBytes(byte(p.family()))
	case unix.NFT_CT_PROTOCOL:
		return knownBytes(unix.IPPROTO_TCP)
	case unix.NFT_CT_SRC, unix.NFT_CT_SRC_IP, unix.NFT_CT_SRC_IP6:
		return p.sourceAddress()
	case unix.NFT_CT_DST, unix.NFT_CT_DST_IP, unix.NFT_CT_DST_IP6:
		return knownBytes(p.Destination.Addr().AsSlice()...)
	case unix.NFT_CT_PROTO_SRC:
		return unknownBytes(2, DependsOnClient)
	case unix.NFT_CT_PROTO_DST:
		return knownBytes(binary.BigEndian.AppendUint16(nil, p.OriginalPort)...)
	default:
		return unknownBytes(maxLoad, NotSimulated)
	}
}

// fib is the value that the fib expression loads (net/ipv4/netfilter/nft_fib_ipv4.c).
// The destination is an address of this host, on the input link for an external packet.
func (p Packet) fib(result, flags uint32, h Hook) maskedBytes {
	in, known := p.inputLink(h)
	ownLink := flags&fibFlagIn == 0 || (!p.Local && known && in != Link{})
	switch {
	case result != unix.NFT_FIB_RESULT_ADDRTYPE:
		return unknownBytes(ifNameSize, DependsOnClient)
	case flags&fibFlagSource != 0 && !p.Local:
		return unknownBytes(4, DependsOnClient)
	case !ownLink:
		return unknownBytes(4, NotSimulated)
	default:
		return knownUint32(unix.RTN_LOCAL)
	}
}

// swapBytes reverses the order of each size bytes.
func (b maskedBytes) swapBytes(size int) maskedBytes {
	out := maskedBytes{slices.Clone(b.value), slices.Clone(b.known), b.uncertainty}
	for i := 0; size > 0 && i+size <= len(out.value); i += size {
		slices.Reverse(out.value[i : i+size])
		slices.Reverse(out.known[i : i+size])
	}
	return out
}

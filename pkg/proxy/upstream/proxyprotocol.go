// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// ProxyProtocol is the version of HAProxy's PROXY protocol that every connection
// to the ingress begins with (doc/proxy-protocol.txt of HAProxy), or 0 for none.
type ProxyProtocol int

// The versions.
const (
	ProxyProtocolOff ProxyProtocol = iota
	ProxyProtocolV1
	ProxyProtocolV2
)

const (
	// signatureV2 begins each header of version 2, and its command follows.
	signatureV2    = "\r\n\r\n\x00\r\nQUIT\n"
	localV2        = 0x20
	relayedV2      = 0x21
	tcpOverIPv4    = 0x11
	tcpOverIPv6    = 0x21
	maxProxyHeader = 107 // of version 1, whose header may be the longer one
)

// appendProxyHeader appends the header that tells the router whose connection
// this is: of client, to vip. For version 0 there is none.
//
// Both are of one family, since they are the two ends of one connection, of which
// one that the kernel shows as mapped is IPv4. Should they ever differ, nothing is
// made up: the header says that the addresses are not known, which a router takes
// for the connection's own (UNKNOWN in version 1, LOCAL in version 2, which it
// must accept, unlike an unspecified family).
func appendProxyHeader(dst []byte, version ProxyProtocol, client, vip netip.AddrPort) []byte {
	client, vip = normalizeAddr(client), normalizeAddr(vip)
	known := client.IsValid() && vip.IsValid() && client.Addr().Is4() == vip.Addr().Is4()
	switch version {
	case ProxyProtocolV1:
		return appendProxyV1(dst, client, vip, known)
	case ProxyProtocolV2:
		return appendProxyV2(dst, client, vip, known)
	default:
		return dst
	}
}

// normalizeAddr is the address as a header has it: neither mapped nor with a zone,
// which says something on this host alone.
func normalizeAddr(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// appendProxyV1 writes section 2.1.
func appendProxyV1(dst []byte, client, vip netip.AddrPort, known bool) []byte {
	if !known {
		return append(dst, "PROXY UNKNOWN\r\n"...)
	}
	dst = append(dst, "PROXY TCP4 "...)
	if client.Addr().Is6() {
		dst[len(dst)-2] = '6'
	}
	dst = append(client.Addr().AppendTo(dst), ' ')
	dst = append(vip.Addr().AppendTo(dst), ' ')
	dst = append(strconv.AppendUint(dst, uint64(client.Port()), 10), ' ')
	return append(strconv.AppendUint(dst, uint64(vip.Port()), 10), "\r\n"...)
}

// appendProxyV2 writes section 2.2.
func appendProxyV2(dst []byte, client, vip netip.AddrPort, known bool) []byte {
	dst = append(dst, signatureV2...)
	if !known {
		return append(dst, localV2, 0, 0, 0)
	}
	family, length := byte(tcpOverIPv4), uint16(2*4+2*2)
	if client.Addr().Is6() {
		family, length = tcpOverIPv6, 2*16+2*2
	}
	dst = append(dst, relayedV2, family)
	dst = binary.BigEndian.AppendUint16(dst, length)
	dst = append(dst, client.Addr().AsSlice()...)
	dst = append(dst, vip.Addr().AsSlice()...)
	dst = binary.BigEndian.AppendUint16(dst, client.Port())
	return binary.BigEndian.AppendUint16(dst, vip.Port())
}

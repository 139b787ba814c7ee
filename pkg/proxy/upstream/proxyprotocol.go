// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	// signatureV2 begins each header of version 2, and its command follows.
	signatureV2    = "\r\n\r\n\x00\r\nQUIT\n"
	localV2        = 0x20
	relayedV2      = 0x21
	tcpOverIPv4    = 0x11
	tcpOverIPv6    = 0x21
	maxProxyHeader = 107 // of version 1, whose header can be the longer one
)

// appendProxyHeader appends the header with the addresses of the connection: from
// client to vip. Version 0 has no header.
//
// Both addresses have one family, because they are the ends of one connection. An
// address that the kernel shows as mapped is IPv4. If the families differ all the
// same, the header declares the addresses unknown, and a router uses those of the
// connection: UNKNOWN in version 1, LOCAL in version 2. A router must accept LOCAL,
// but not an unspecified family.
func appendProxyHeader(dst []byte, version ingress.ProxyProtocol, client, vip netip.AddrPort) []byte {
	client, vip = normalizeAddr(client), normalizeAddr(vip)
	addrsKnown := client.IsValid() && vip.IsValid() && client.Addr().Is4() == vip.Addr().Is4()
	switch version {
	case ingress.ProxyProtocolV1:
		return appendProxyV1(dst, client, vip, addrsKnown)
	case ingress.ProxyProtocolV2:
		return appendProxyV2(dst, client, vip, addrsKnown)
	default:
		return dst
	}
}

// normalizeAddr returns an address as a header contains it: unmapped and without a
// zone, which is valid only on this host.
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

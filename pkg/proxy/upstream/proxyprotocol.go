// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// proxyHeader returns the header with the addresses of the connection: from client to
// vip. The version is not ProxyProtocolOff.
//
// Both addresses are of one family, because they are the ends of one connection. An address
// that the kernel shows as mapped is IPv4. If the families differ nevertheless, the header
// declares the addresses unknown, and a router uses the addresses of the connection: UNKNOWN in
// version 1, LOCAL in version 2.
func proxyHeader(version ingress.ProxyProtocol, client, vip netip.AddrPort) ([]byte, error) {
	from, to := net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(vip)
	if client.Addr().Unmap().Is4() != vip.Addr().Unmap().Is4() {
		from, to = &net.TCPAddr{}, &net.TCPAddr{}
	}
	return proxyproto.HeaderProxyFromAddrs(byte(version), from, to).Format() //nolint:gosec // 1 or 2
}

// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
)

// Server is a DNS server of this host.
type Server struct {
	Addr netip.AddrPort
	// Local: the server is on this host. OpenShift's local server always returns the
	// VIPs, whatever external clients get.
	Local bool
}

// Servers reads the servers from resolv.conf.
func Servers(path string, isOwn func(netip.Addr) bool) (all []Server, err error) {
	addrs, err := resolve.Servers(path)
	for _, a := range addrs {
		all = append(all, Server{a, a.Addr().IsLoopback() || isOwn(a.Addr())})
	}
	return all, err
}

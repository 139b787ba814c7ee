// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

const (
	port          = 53
	maxServers    = 4
	maxResolvConf = 64 << 10
)

// Server is a DNS server of this host.
type Server struct {
	Addr netip.AddrPort
	// Local: the server is on this host. OpenShift's local server always returns the
	// VIPs, whatever external clients get.
	Local bool
}

// Servers reads the servers from resolv.conf.
func Servers(path string, isOwn func(netip.Addr) bool) ([]Server, error) {
	text, err := textfile.Read(path, maxResolvConf)
	if err != nil {
		return nil, err
	}
	var all []Server
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if err != nil || len(all) == maxServers {
			continue
		}
		addr = addr.Unmap()
		all = append(all, Server{netip.AddrPortFrom(addr, port), addr.IsLoopback() || isOwn(addr)})
	}
	return all, nil
}

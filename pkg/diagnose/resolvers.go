// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

const (
	dnsPort       = 53
	maxServers    = 4
	maxResolvConf = 64 << 10
)

// dnsServer is a DNS server of this host.
type dnsServer struct {
	addr netip.AddrPort
	// local: the server is on this host. OpenShift's local server always returns the
	// VIPs, whatever external clients get.
	local bool
}

// dnsServers reads the servers from resolv.conf.
func (h *host) dnsServers() ([]dnsServer, error) {
	text, err := textfile.Read(h.ResolvConf, maxResolvConf)
	if err != nil {
		return nil, err
	}
	var all []dnsServer
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if err != nil || len(all) == maxServers {
			continue
		}
		own := addr.IsLoopback() || slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == addr.Unmap() })
		all = append(all, dnsServer{netip.AddrPortFrom(addr.Unmap(), dnsPort), own})
	}
	return all, nil
}

// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

const (
	maxFileBytes = 1 << 20
	maxServers   = 3 // as glibc and Go (MAXNS of resolv.h)
	maxSearch    = 6
	dnsPort      = 53
)

type resolvConf struct {
	servers []netip.AddrPort
	search  []string
}

// Servers returns the DNS servers of a resolv.conf(5).
func Servers(path string) ([]netip.AddrPort, error) {
	c, err := readResolvConf(path)
	return c.servers, err
}

func readResolvConf(path string) (c resolvConf, err error) {
	text, err := textfile.Read(path, maxFileBytes)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			addr, err := netip.ParseAddr(fields[1])
			if err == nil && len(c.servers) < maxServers {
				c.servers = append(c.servers, netip.AddrPortFrom(addr.Unmap(), dnsPort))
			}
		case "domain", "search":
			c.search = fields[1:min(len(fields), maxSearch+1)] // the last line applies
		}
	}
	return c, err
}

// absoluteNames returns the trimmed names to query, in their order. A name without a dot is
// first looked up in the search domains.
func (c resolvConf) absoluteNames(name string) []string {
	trimmed := strings.TrimSuffix(name, ".")
	if strings.Contains(name, ".") {
		return []string{trimmed}
	}
	all := make([]string, 0, len(c.search)+1)
	for _, domain := range c.search {
		if domain = strings.Trim(domain, "."); domain != "" {
			all = append(all, trimmed+"."+domain)
		}
	}
	return append(all, trimmed)
}

func lookupHosts(text, name string) (found []netip.Addr) {
	name = strings.TrimSuffix(name, ".")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		matches := func(other string) bool { return strings.EqualFold(strings.TrimSuffix(other, "."), name) }
		addr, err := netip.ParseAddr(fields[0])
		if err == nil && slices.ContainsFunc(fields[1:], matches) && !slices.Contains(found, addr.Unmap()) {
			found = append(found, addr.Unmap())
		}
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestDNS uses DNS servers that fail or answer for one family only. The resolver on the
// node answers with the VIPs, as OpenShift's does.
func TestDNS(t *testing.T) {
	c := healthy(t, nil)
	fails, silent := lab.NameAnswer{Fails: true}, lab.NameAnswer{Silent: true}
	a, aaaa := lab.NameAnswer{Addresses: []netip.Addr{c.API.V4}}, lab.NameAnswer{Addresses: []netip.Addr{c.API.V6}}
	serve := func(a, aaaa lab.NameAnswer) func(*cluster) {
		return func(c *cluster) { c.addLocalResolver(c.standby()); c.serveOutsideDNS(a, aaaa) }
	}
	c.runFaults(t, []faultCase{
		{
			name: "AAAA fails", want: []string{"dns-server-fails"}, inject: serve(a, fails),
			texts: map[string]string{"dns-server-fails": "192.0.2.1 returns an error, such as SERVFAIL, to a query for the " +
				"AAAA record of api.lab.test"},
		},
		{
			name: "no answer for A", want: []string{"dns-server-fails"}, inject: serve(silent, aaaa),
			texts: map[string]string{"dns-server-fails": "192.0.2.1 does not respond to a query for the A record of api.lab.test"},
		},
		{name: "both fail", want: []string{"dns-server-fails"}, inject: serve(fails, fails)},
		{name: "the outside server does not answer", want: []string{}, inject: serve(silent, silent)},
		{
			name: "many unused addresses", want: []string{
				"dns-other-address", "dns-family-missing",
			},
			inject: func(c *cluster) {
				var many []netip.Addr
				for i := range 16 {
					many = append(many, netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", i+1)))
				}
				c.serveOutsideDNS(lab.NameAnswer{Addresses: many}, lab.NameAnswer{})
			},
		},
	})
}

// addLocalResolver runs a resolver on a node that answers with the VIPs, as OpenShift's
// CoreDNS does. It is the first one in resolv.conf.
func (c *cluster) addLocalResolver(n *lab.Node) {
	c.t.Helper()
	c.serveNames(n, n.Addresses.V4, func(name string, ipv6 bool) lab.NameAnswer {
		switch {
		case name != apiName:
			return lab.NameAnswer{}
		case ipv6:
			return lab.NameAnswer{Addresses: []netip.Addr{c.API.V6}}
		default:
			return lab.NameAnswer{Addresses: []netip.Addr{c.API.V4}}
		}
	})
	c.writeResolvConf(n, n.Addresses.V4, c.DNS()[0])
}

// serveOutsideDNS makes the gateway's DNS server return an answer for all names, and the
// standby node use it, until the test ends.
func (c *cluster) serveOutsideDNS(a, aaaa lab.NameAnswer) {
	c.t.Helper()
	at := c.Gateway.Addresses.V4
	c.serveNames(c.Gateway, at, func(_ string, ipv6 bool) lab.NameAnswer {
		if ipv6 {
			return aaaa
		}
		return a
	})
	c.writeResolvConf(c.standby(), c.standby().Addresses.V4, at)
}

func (c *cluster) serveNames(n *lab.Node, at netip.Addr, answer func(name string, ipv6 bool) lab.NameAnswer) {
	c.t.Helper()
	s, err := n.ServeNames(c.t.Context(), at, answer)
	must(c.t, err)
	c.onCleanup(func(context.Context) error { return s.Close() })
}

// writeResolvConf writes a node's resolv.conf until the test ends.
func (c *cluster) writeResolvConf(n *lab.Node, servers ...netip.Addr) {
	c.t.Helper()
	var text strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&text, "nameserver %v\n", s)
	}
	must(c.t, n.WriteHostFile("resolv.conf", text.String()))
	c.onCleanup(func(context.Context) error { return c.writeHostFiles(n) })
}

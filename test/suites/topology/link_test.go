// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// expectLink expects each API VIP on a link of a name and a kind.
func (s *testbed) expectLink(name func(netip.Addr) string, kind string) {
	s.t.Helper()
	for _, vip := range s.AllAPI() {
		got, of := s.linkOf(s.Preferred(vip), vip)
		if got != name(vip) || of != kind {
			s.t.Errorf("%s is on %s, a %s, not on %s, a %s", vip, got, of, name(vip), kind)
		}
	}
}

// linkOf returns the name and kind of the link with an address.
func (s *testbed) linkOf(n *lab.Node, a netip.Addr) (name, kind string) {
	s.t.Helper()
	text, err := n.Run(s.t.Context(), "ip", "-j", "-d", "address", "show", "to", a.String())
	must(s.t, err)
	var links []struct {
		Name string `json:"ifname"`
		Info struct {
			Kind string `json:"info_kind"`
		} `json:"linkinfo"`
	}
	must(s.t, json.Unmarshal([]byte(text), &links))
	// ip lists other links as empty objects.
	for _, l := range links {
		if l.Name != "" {
			return l.Name, l.Info.Kind
		}
	}
	return "nothing", ""
}

// sameLink returns the same link name for every VIP.
func sameLink(link string) func(netip.Addr) string { return func(netip.Addr) string { return link } }

// vmac returns the name of keepalived's link for a VIP.
func vmac(vip netip.Addr) string {
	if vip.Is4() {
		return "vrrp57.4"
	}
	return "vrrp57.6"
}

// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestSource(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"203.0.113.9":                 "203.0.113.9/32",
		"2001:db8:1:2ff:3::4":         "2001:db8:1:2ff::/64",
		"::192.0.2.1":                 "::/64",
		"64:ff9b::203.0.113.9":        "203.0.113.9/32",
		"64:ff9b:0:0:0:1:203.0.113.9": "64:ff9b::/64", // not the well-known prefix
	} {
		c := report.Challenge{Client: netip.AddrPortFrom(netip.MustParseAddr(client), 1234)}
		if got := c.Source(); got != netip.MustParsePrefix(want) {
			t.Errorf("%s: %v, want %s", client, got, want)
		}
	}
}

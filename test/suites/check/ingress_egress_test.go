// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// configureEgress configures the standby node and waits until its service accepts the
// egress proxy. At the end of the test it restores the configuration without one.
func (c *cluster) configureEgress(config string) {
	c.t.Helper()
	n := c.standby()
	must(c.t, n.WriteConfig(config))
	c.onCleanup(func(ctx context.Context) error {
		if err := n.WriteConfig(n.DefaultConfig()); err != nil {
			return err
		}
		_, err := c.Services[2].AwaitCondition(ctx, "EgressProxyReady", "NotConfigured")
		return err
	})
	_, err := c.Services[2].AwaitCondition(c.t.Context(), "EgressProxyReady", "Accepted")
	must(c.t, err)
}

// TestEgressProxyUnreachable holds that check ends in time when neither the egress proxy
// nor a DNS server answers.
func TestEgressProxyUnreachable(t *testing.T) {
	c := healthy(t, nil)
	// No control-plane node has a route to the ingress without the egress proxy.
	config := fmt.Sprintf(
		"vips: {api: [%q, %q], ingress: [%q, %q]}\nhosts: [%s]\nupstream: {scheme: https}\negressProxy: {upstream: auto, ",
		c.API.V4, c.API.V6, c.Outside.V4, c.Outside.V6, apiName)
	for _, tt := range []struct {
		name, host string
		dns        bool // the DNS server answers
		want       []string
		texts      []string
	}{
		{"a proxy that does not answer", c.Egress.Addresses.V4.String(), true, nil, []string{"timeout: no answer in time"}},
		{
			"and a DNS server that does not answer", lab.EgressName, false,
			[]string{"dns-no-server"},
			[]string{lab.EgressName, "does not answer"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c.forSubtest(t)
			url := c.Egress.URL("http", "", tt.host)
			c.configureEgress(config + fmt.Sprintf("httpProxy: %q, httpsProxy: %q}\n", url, url))
			c.loadFaultRules(c.standby(),
				"chain output { type filter hook output priority raw; oifname br-ex tcp dport 3128 drop; }")
			if !tt.dns {
				c.loadFaultRules(c.Internet.Node,
					"chain input { type filter hook input priority 0; meta l4proto { tcp, udp } th dport 53 drop; }")
			}
			r := c.expectFindings(c.standby(), append([]string{"egress-unreachable"}, tt.want...), "--token", token)
			c.expectText(r, "egress-unreachable", tt.texts...)
			c.expectDuration(r)
		})
	}
}

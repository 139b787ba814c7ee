// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	token      = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	thumbprint = "nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ"
	acmePath   = "/.well-known/acme-challenge/"
)

// TestIngress puts faults into the ingress VIPs, the router and the backends.
func TestIngress(t *testing.T) {
	c := healthy(t, nil)
	trace := []string{"--token", token}
	answer := func(status int, kind, body string) func(*cluster) {
		return func(c *cluster) {
			c.startWebServer(status, kind, body)
			c.addRoute(acmePath+token, webPort)
		}
	}
	endless := func(c *cluster) {
		must(c.t, os.WriteFile(filepath.Join(c.Worker.Dir, "page"), bytes.Repeat([]byte("long "), 14000), 0o600))
		c.startNginx(webPort, fmt.Sprintf("root %s; location / { try_files /page =404; }", c.Worker.Dir))
		c.addRoute("", webPort)
	}
	ownPage := func(c *cluster) {
		c.replaceRouter(func() {
			c.startNginx(80, `default_type application/json; location / { return 503 '{"error": "no such app"}'; }`)
		})
	}
	filtered := func(action string) func(*cluster) {
		return func(c *cluster) {
			c.loadFaultRules(c.Worker.Node, "chain input { type filter hook input priority 0; tcp dport 80 "+action+"; }")
		}
	}
	c.runFaults(t, []faultCase{
		{
			name: "the router does not run", want: []string{"ingress-refused"},
			inject: func(c *cluster) {
				must(c.t, c.Worker.StopRouter(c.t.Context()))
				c.onCleanup(func(ctx context.Context) error { return c.Worker.StartRouter(ctx, lab.RouterOptions{}) })
			},
		},
		{
			name: "this host has no free port", want: []string{"local-resources"},
			inject: func(c *cluster) {
				c.run(c.standby(), `sysctl -qw net.ipv4.ip_local_port_range="40000 40063"`,
					`sysctl -qw net.ipv4.ip_local_port_range="32768 60999"`)
				for _, vip := range c.Ingress.Both() {
					for range 64 {
						conn, err := c.standby().Dial(c.t.Context(), "tcp", netip.AddrPortFrom(vip, 80).String())
						must(c.t, err)
						c.onCleanup(func(context.Context) error { return conn.Close() })
					}
				}
			},
		},
		{name: "a firewall drops the router's port", inject: filtered("drop"), want: []string{"ingress-timeout"}},
		{
			name: "a router that closes connections", want: []string{"ingress-closed-connection"},
			texts: map[string]string{"ingress-closed-connection": "If the router expects the PROXY protocol " +
				"(hostNetwork.protocol: PROXY of the IngressController), set upstream.proxyProtocol"},
			inject: func(c *cluster) { c.replaceRouter(func() { c.startNginx(80, "return 444;") }) },
		},
		{
			name: "a firewall rejects the router's port", inject: filtered("reject with icmpx admin-prohibited"),
			want: []string{"ingress-unreachable"},
		},
		{
			name: "not HTTP", want: []string{"response-malformed"},
			inject: func(c *cluster) { c.replaceRouter(func() { c.serveBytes("SSH-2.0-OpenSSH_9.2\r\n") }) },
		},
		{
			name: "a truncated answer", want: []string{"response-truncated"},
			inject: func(c *cluster) {
				c.replaceRouter(func() { c.serveBytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello") })
			},
		},
		{name: "an endless page", inject: endless, want: []string{"response-too-large"}},
		{name: "an endless page, with --token", inject: endless, flags: trace, want: []string{"response-too-large"}},
		{
			name: "a route back to the API VIP", want: []string{"route-loop"},
			inject: func(c *cluster) {
				r, err := c.Worker.AddRouteTo(c.t.Context(), apiName, "", c.API.V4, 80)
				must(c.t, err)
				c.onCleanup(r.Remove)
			},
		},
		{
			name: "the router is frozen", want: []string{"ingress-no-response"},
			inject: func(c *cluster) {
				must(c.t, c.Worker.FreezeRouter())
				c.onCleanup(func(context.Context) error { return c.Worker.ThawRouter() })
			},
		},
		{name: "no route for a pending challenge", inject: func(*cluster) {}, flags: trace, want: []string{"route-missing"}},
		{name: "a custom error page", inject: ownPage, want: []string{}},
		{name: "no route and a custom error page", inject: ownPage, flags: trace, want: []string{"route-missing"}},
		{
			name: "another route serves the name", want: []string{"name-already-served"},
			inject: func(c *cluster) { c.startWebServer(200, "text/html", "<html>hello</html>"); c.addRoute("", webPort) },
		},
		{
			name: "a solver of another token has the path", flags: trace, want: []string{"token-unknown"},
			inject: func(c *cluster) {
				c.addRoute(acmePath+token, c.startSolver("another").Port)
			},
		},
		{
			name: "the solver answers 500", flags: trace, inject: answer(500, "text/plain", "oops"),
			want: []string{"response-status"},
		},
		{
			name: "a line break after the key", flags: trace, inject: answer(200, "text/plain", token+"."+thumbprint+"\n"),
			want: []string{"response-not-key"},
			texts: map[string]string{"response-not-key": "The response is not the key of this token. It is the key, and a " +
				"line break follows it (also [fd4e:5f2a:9c01:1::6]:80)"},
		},
		{
			name: "more than a CA reads", flags: trace, inject: answer(200, "text/plain", token+"."+thumbprint+
				strings.Repeat("x", 50)), want: []string{"response-not-key"},
			texts: map[string]string{"response-not-key": "The response is not the key of this token. It is more than the " +
				"key: it has 137 bytes, and CAs read 127 (also [fd4e:5f2a:9c01:1::6]:80)"},
		},
		{
			name: "an HTML page", flags: trace, inject: answer(200, "text/html",
				"<!DOCTYPE html><html><body>hello</body></html>"), want: []string{"response-not-key"},
			texts: map[string]string{"response-not-key": "The response is not the key of this token. It is an HTML page of " +
				"46 bytes (also [fd4e:5f2a:9c01:1::6]:80)"},
		},
	})
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// beyondProxy is a configuration for an ingress that no master has a way to but through
// the egress proxy at url.
func (c *cluster) beyondProxy(p pki, url, upstream string) string {
	c.t.Helper()
	ca := filepath.Join(c.t.TempDir(), "proxy-ca.crt")
	must(c.t, os.WriteFile(ca, p.other.Certificate(), 0o600))
	return fmt.Sprintf("vips: {api: [%q, %q], ingress: [%q, %q]}\nhosts: [%s]\n", c.API.V4, c.API.V6, c.Outside.V4, c.Outside.V6, apiName) +
		c.trusting(upstream, p.root) +
		fmt.Sprintf("egressProxy: {httpProxy: %q, httpsProxy: %q, trustedCA: %q, upstream: auto}\n", url, url, ca)
}

// proxy runs the egress proxy until the test ends. It takes the API's name for the
// router outside unless the test says otherwise.
func (c *cluster) proxy(o lab.EgressOptions) {
	c.t.Helper()
	if o.Hosts == nil {
		o.Hosts = map[string]lab.Pair{apiName: c.Outside}
	}
	must(c.t, c.Egress.Start(c.t.Context(), o))
	c.heal(c.Egress.Stop)
}

// accepts has the node on which check runs take a configuration, and waits until its
// service has accepted the egress proxy, and when the test ends until it has none.
func (c *cluster) accepts(config string) {
	c.t.Helper()
	n := c.standby()
	must(c.t, n.WriteConfig(config))
	c.heal(func(ctx context.Context) error {
		if err := n.WriteConfig(n.DefaultConfig()); err != nil {
			return err
		}
		return c.proxyIs(ctx, "NotConfigured")
	})
	must(c.t, c.proxyIs(c.t.Context(), "Accepted"))
}

// proxyIs waits until the service says so of the egress proxy, on the node on which
// check runs.
func (c *cluster) proxyIs(ctx context.Context, reason string) error {
	_, err := c.Services[2].Await(ctx, "the egress proxy", func(seen lab.Status) error {
		if found := seen.ConditionOf("EgressProxyReady"); found.Reason != reason {
			return fmt.Errorf("EgressProxyReady is %s: %s", found.Reason, found.Message)
		}
		return nil
	})
	return err
}

// TestIngressThroughProxy: an ingress that is reached through a real squid, and what
// that one says no with.
func TestIngressThroughProxy(t *testing.T) {
	c := healthy(t, nil)
	p := newPKI(t)
	router := lab.RouterOptions{Secure: p.apps(t)}
	const user, password = "lab", "s3cret of the lab"
	plain := c.Egress.URL("http", "", c.Egress.Addresses.V4.String())
	wrong := c.Egress.URL("http", "somebody:el53", c.Egress.Addresses.V4.String())
	named := c.Egress.URL("http", "", lab.EgressName)
	through := func(o *lab.EgressOptions, url, upstream string) func(*cluster) {
		return func(c *cluster) {
			must(c.t, c.Internet.SetName(c.t.Context(), lab.EgressName, c.Egress.Addresses))
			c.router(router)
			if o != nil {
				c.proxy(*o)
			}
			c.accepts(c.beyondProxy(p, url, upstream))
		}
	}
	const http = "followRedirects: false"
	// Nothing was tried: that is said besides.
	const untried = "egress-without-readiness"
	bumping, err := lab.NewAuthority("Lab Bump CA")
	must(t, err)
	c.all(t, []fault{
		{name: "in plain HTTP", want: []string{untried}, inject: through(&lab.EgressOptions{}, plain, http)},
		{name: "by TLS, a proxy with a name", want: []string{untried}, inject: through(&lab.EgressOptions{}, named, https)},
		{
			name: "with credentials", want: []string{untried},
			inject: through(&lab.EgressOptions{User: user, Password: password}, c.Egress.URL("http", "lab:s3cret%20of%20the%20lab", c.Egress.Addresses.V4.String()), https),
		},
		{
			name: "nobody listens", want: []string{untried, "egress-unreachable"}, inject: through(nil, plain, https),
			says: map[string]string{"egress-unreachable": "the egress proxy " + c.Egress.At(c.Egress.Addresses.V4) + ", through which " + c.Outside.V4.String() + ":443 is reached"},
		},
		{
			name: "a name that nobody knows", want: []string{untried, "egress-unreachable"},
			inject: through(nil, c.Egress.URL("http", "", "nobody.lab.test"), https),
			says:   map[string]string{"egress-unreachable": "nobody.lab.test"},
		},
		{name: "other credentials", want: []string{untried, "egress-auth"}, inject: through(&lab.EgressOptions{User: user, Password: password}, wrong, https)},
		{name: "denied", want: []string{untried, "egress-denied"}, inject: through(&lab.EgressOptions{Deny: true}, plain, https)},
		{name: "denied, in plain HTTP", want: []string{untried, "egress-denied"}, inject: through(&lab.EgressOptions{Deny: true}, plain, http)},
		{
			name: "a proxy without TLS", want: []string{untried, "egress-tls"},
			inject: through(&lab.EgressOptions{}, c.Egress.URL("https", "", c.Egress.Addresses.V4.String()), https),
		},
		{
			name: "a proxy that finds the API VIP under the name", want: []string{untried, "egress-loops"},
			inject: through(&lab.EgressOptions{Hosts: map[string]lab.Pair{apiName: c.API}}, plain, http),
		},
		{
			name: "a man in the middle that is not trusted", want: []string{untried, "ingress-tls-untrusted"},
			inject: through(&lab.EgressOptions{Bump: bumping, Trust: p.root.Certificate()}, plain, https),
			says:   map[string]string{"ingress-tls-untrusted": "egressProxy.trustedCA"},
		},
	})
	t.Run("one line", func(t *testing.T) {
		c := c.with(t)
		through(&lab.EgressOptions{}, wrong, https)(c)
		text, _, err := c.standby().CheckText(t.Context(), shared.binary)
		must(t, err)
		line := lineOf(text, "✓ ingress ")
		for _, vip := range c.Outside.Both() {
			if !strings.Contains(line, netip.AddrPortFrom(vip, 443).String()) {
				t.Errorf("no word of %s: %q", vip, line)
			}
		}
		// Two that took the same time are told of together.
		of := strings.Count(line, "answers in")
		if n := strings.Count(line, "through the egress proxy "+c.Egress.Addresses.V4.String()); n != of || n == 0 {
			t.Errorf("the proxy is named %d times, for %d answers: %q", n, of, line)
		}
		if strings.Contains(text, "el53") {
			t.Errorf("it shows credentials:\n%s", text)
		}
	})
}

// lineOf is the line of a report that begins so.
func lineOf(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}

// TestProxyDead: with an egress proxy at which nobody answers, and no DNS server that
// does, check still ends in time.
func TestProxyDead(t *testing.T) {
	c := healthy(t, nil)
	p := newPKI(t)
	for _, tt := range []struct {
		name, host string
		dns        bool // answers
		want       []string
		says       []string
	}{
		{"a proxy that is silent", c.Egress.Addresses.V4.String(), true, nil, []string{"i/o timeout"}},
		{"and a DNS that is", lab.EgressName, false, []string{"dns-silent"}, []string{lab.EgressName, "does not answer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c.with(t)
			c.accepts(c.beyondProxy(p, c.Egress.URL("http", "", tt.host), https))
			c.rules(c.standby(), "chain output { type filter hook output priority raw; oifname br-ex tcp dport 3128 drop; }")
			if !tt.dns {
				c.rules(c.Internet.Node, "chain input { type filter hook input priority 0; meta l4proto { tcp, udp } th dport 53 drop; }")
			}
			r := c.exactly(c.standby(), append([]string{"egress-unreachable", "egress-without-readiness"}, tt.want...), "--token", token)
			c.says(r, "egress-unreachable", tt.says...)
			if r.Took <= 0 || r.Took > 15000 {
				t.Errorf("it took %v ms", r.Took)
			}
			t.Logf("%v ms, %v", r.Took, r.IDs())
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestVIP places VIPs on no host, and on a link that is down.
func TestVIP(t *testing.T) {
	c := healthy(t, nil)
	c.runFaults(t, []faultCase{
		{
			name: "on no host", want: []string{"proxy-unreachable"}, inject: stopAllKeepalived,
		},
		{
			name: "on a link that is down", want: []string{"vip-link-down"},
			inject: func(c *cluster) {
				c.run(c.standby(), fmt.Sprintf("ip link add left type veth peer name right; ip address add %s/32 dev left",
					c.API.V4), "ip link delete left")
			},
			texts: map[string]string{"vip-link-down": "The API VIP 192.0.2.5 is on left of this host, and this link is down"},
			fixed: true,
		},
	})
}

// TestCarrierLost holds that a disconnected host that still has the VIPs gets only this
// finding, and none about the ingress or the DNS.
func TestCarrierLost(t *testing.T) {
	c := healthy(t, nil)
	twoHolders(c)
	c.run(c.Gateway, "ip link set master0 down", "ip link set master0 up")
	// The kernel can take a second to report it (net/core/link_watch.c).
	must(t, lab.Eventually(t.Context(), "the carrier to be lost", func(ctx context.Context) error {
		shown, err := c.holder().Run(ctx, "ip", "link", "show", "dev", "br-ex")
		if err == nil && !strings.Contains(shown, "NO-CARRIER") {
			err = fmt.Errorf("br-ex is %s", shown)
		}
		return err
	}))
	c.expectFindings(c.holder(), []string{"vip-link-down"})
}

func stopAllKeepalived(c *cluster) {
	for _, m := range c.ControlPlane {
		must(c.t, m.StopKeepalived(c.t.Context()))
	}
	c.onCleanup(c.restartKeepalived(c.ControlPlane...))
}

// restartKeepalived returns a function that starts keepalived on control-plane nodes and
// waits for the VIPs.
func (c *cluster) restartKeepalived(nodes ...*lab.ControlPlaneNode) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for _, m := range nodes {
			err = errors.Join(err, m.StartKeepalived(ctx))
		}
		return errors.Join(err, c.AwaitVIPs(ctx))
	}
}

// secondNIC gives a node a second NIC in the machine network. Its kernel then answers ARP
// from both.
func (c *cluster) secondNIC(n *lab.Node) {
	c.t.Helper()
	_, bridge := c.Switch()
	c.onCleanup(func(ctx context.Context) error {
		// Other nodes have a neighbour entry for the removed NIC.
		for _, other := range []*lab.Node{
			c.Gateway, c.Worker.Node, c.ControlPlane[0].Node, c.ControlPlane[1].Node,
			c.ControlPlane[2].Node,
		} {
			if _, err := other.Run(ctx, "ip", "neighbour", "flush", "all"); err != nil {
				return err
			}
		}
		return nil
	})
	peer := "second-" + n.Name
	// A bridge uses the lowest hardware address of its ports; it must not be this one.
	high := fmt.Sprintf("fe:ff:ff:ff:ff:%02x", n.Addresses.V4.As4()[3])
	c.run(n, fmt.Sprintf("ip link add second type veth peer name %s address %s netns %s; ip link set second up", peer,
		high, c.Gateway.Namespace), "ip link delete second")
	_, err := c.Gateway.Run(c.t.Context(), "ip", "link", "set", peer, "master", bridge, "up")
	must(c.t, err)
}

// useSingleIPv6Address gives a node its IPv6 address as DHCPv6 does, with a route for the
// network. keepalived uses that address and is stopped during the change.
func (c *cluster) useSingleIPv6Address(m *lab.ControlPlaneNode) {
	c.t.Helper()
	begin := c.restartKeepalived(m)
	must(c.t, m.StopKeepalived(c.t.Context()))
	c.onCleanup(begin)
	n, own := m.Node, m.Addresses.V6
	const change = "ip -6 address del %[1]s/%[2]d dev br-ex; ip -6 address add %[1]s/%[3]d dev br-ex nodad; " +
		"ip -6 route %[6]s %[5]s dev br-ex proto static; ip -6 route replace default via %[4]s"
	prefix, gateway := netip.PrefixFrom(own, 64).Masked(), c.Gateway.Addresses.V6
	c.run(n, fmt.Sprintf(change, own, 64, 128, gateway, prefix, "add"), fmt.Sprintf(change, own, 128, 64, gateway, prefix,
		"del"))
	must(c.t, begin(c.t.Context()))
	c.onCleanup(m.StopKeepalived)
}

// twoHolders kills keepalived with SIGKILL on the VIP holder. The holder keeps the VIPs and
// another node adds them too.
func twoHolders(c *cluster) {
	first, second := c.ControlPlane[0], c.ControlPlane[1]
	must(c.t, first.KillKeepalived(c.t.Context()))
	c.onCleanup(c.restartKeepalived(first))
	must(c.t, lab.Eventually(c.t.Context(), "two holders", func(ctx context.Context) error {
		for _, vip := range c.API.Both() {
			for _, m := range []*lab.ControlPlaneNode{first, second} {
				if held, err := m.Holds(ctx, vip); err != nil || !held {
					return errors.Join(err, fmt.Errorf("%s does not hold %s", m, vip))
				}
			}
			// The third node can become VRRP master briefly before it receives the second
			// node's advertisement.
			if held, err := c.standby().Holds(ctx, vip); err != nil || held {
				return errors.Join(err, fmt.Errorf("%s holds %s", c.standby(), vip))
			}
		}
		return nil
	}))
}

// TestProxyReachability tests connections to the proxy from this host and from others.
func TestProxyReachability(t *testing.T) {
	c := healthy(t, nil)
	const port80 = "tcp dport 80 ip daddr 192.0.2.5 drop; tcp dport 80 ip6 daddr fd4e:5f2a:9c01:1::5 drop;"
	c.runFaults(t, []faultCase{
		{
			name: "clients on the host are blocked", on: holder, want: []string{"self-check-fails"},
			inject: dropHostClients,
			texts:  map[string]string{"self-check-fails": "it does not reach the proxy at 192.0.2.5:80"},
		},
		{
			name: "a firewall before the VIP", want: []string{"proxy-unreachable"},
			inject: func(c *cluster) {
				c.loadFaultRules(c.holder(), "chain prerouting { type filter hook prerouting priority raw; "+port80+" }")
			},
		},
		{
			name: "one family is blocked", want: []string{"proxy-unreachable"},
			inject: func(c *cluster) {
				c.loadFaultRules(c.holder(),
					"chain prerouting { type filter hook prerouting priority raw; meta nfproto ipv6 tcp dport 80 drop; }")
			},
			texts: map[string]string{"proxy-unreachable": "http01-proxyd does not respond at [fd4e:5f2a:9c01:1::5]:80: it " +
				"does not reply to connection attempts"},
		},
	})
}

// dropHostClients drops connections from the holder itself to port 80 of the VIPs. The rule
// precedes the local routes and is not in a ruleset. Connections from outside have another
// port at that point.
func dropHostClients(c *cluster) {
	for _, family := range []string{"-4", "-6"} {
		vip := c.API.V4
		if family == "-6" {
			vip = c.API.V6
		}
		c.run(c.holder(),
			fmt.Sprintf(
				"ip %[1]s rule add pref 2 lookup local; ip %[1]s rule add pref 1 to %[2]s ipproto tcp dport 80 blackhole; ip "+
					"%[1]s rule del pref 0", family, vip),
			fmt.Sprintf("ip %[1]s rule add pref 0 lookup local; ip %[1]s rule del pref 1; ip %[1]s rule del pref 2", family))
	}
}

// TestAddressInHosts holds that check sends no DNS query for addresses in hosts, and that
// the service answers challenges for these addresses only.
func TestAddressInHosts(t *testing.T) {
	c := healthy(t, func(n *lab.Node) string {
		return n.DefaultConfig() + fmt.Sprintf("hosts: [192.0.2.5, '%s', %s]\n", strings.ToUpper(shared.lab.API.V6.String()),
			apiName)
	})
	c.expectFindings(c.holder(), []string{})
	for _, vip := range []string{c.API.V4.String(), "[" + c.API.V6.String() + "]"} {
		answer, err := c.Internet.Get(t.Context(), "http://"+vip+acmePath+"a-token-of-no-solver")
		must(t, err)
		if answer.Status != 503 {
			t.Errorf("a challenge for %s: status %d", vip, answer.Status)
		}
	}
	// A wildcard has no challenge by HTTP-01.
	for name, want := range map[string]string{
		"*.lab.test": "use a DNS-01 solver",
		"192.0.2.5":  "the finding route-missing-for-address", "2001:db8::5": "the finding route-missing-for-address",
	} {
		_, _, err := c.holder().CheckText(t.Context(), shared.binary, "--name", name)
		if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("--name %s: %v", name, err)
		}
	}
}

// TestHosts runs check for a name that the configuration does not list.
func TestHosts(t *testing.T) {
	c := healthy(t, func(n *lab.Node) string { return n.DefaultConfig() + "hosts: [other.lab.test]\n" })
	c.startSolver(token)
	r := c.expectFindings(c.holder(), []string{"name-not-in-hosts"}, "--name", apiName, "--token",
		token)
	c.expectText(r, "name-not-in-hosts", "The proxy at 192.0.2.5:80 (also [fd4e:5f2a:9c01:1::5]:80) does not accept "+
		"challenges for api.lab.test")
	// The configuration alone shows it, also without a token and on a node without a VIP.
	c.expectFindings(c.holder(), []string{"name-not-in-hosts"}, "--name", apiName)
	c.expectFindings(c.standby(), []string{"name-not-in-hosts"}, "--name", apiName)
	// Without --name, the host's own files have the name.
	must(t, c.holder().WriteAPIServerURL(internalName))
	t.Cleanup(func() { must(t, os.Remove(c.holder().APIServerURL())) })
	r = c.expectFindings(c.holder(), []string{"name-not-in-hosts"}, "--only", "self-check")
	c.expectText(r, "name-not-in-hosts", "this host does not accept challenges for api.lab.test, the name of the API in",
		`of every control-plane node: hosts: ["other.lab.test", "api.lab.test"]`)
}

// TestForeignHost makes cert-manager request a challenge for a name other than the API's, which
// is the only accepted one by default. The finding has the line that accepts it.
func TestForeignHost(t *testing.T) {
	for _, m := range shared.lab.ControlPlane {
		must(t, m.WriteAPIServerURL(internalName))
		t.Cleanup(func() { must(t, os.Remove(m.APIServerURL())) })
	}
	c := healthy(t, nil)
	c.expectFindings(c.holder(), []string{})
	const other = "other.lab.test"
	must(t, c.Internet.SetName(t.Context(), other, c.API))
	selfCheck := func() lab.Answer {
		answer, err := c.Internet.GetAs(t.Context(), lab.SelfCheckAgent, "http://"+other+acmePath+"a-token-of-no-solver")
		must(t, err)
		return answer
	}
	if a := selfCheck(); a.Status != 400 {
		t.Errorf("a challenge for another name: %+v", a)
	}
	r := c.expectFindings(c.holder(), []string{"name-not-in-hosts"})
	c.expectText(r, "name-not-in-hosts", "this host does not accept challenges for <name of the challenge>",
		`of every control-plane node: hosts: ["api.lab.test", "<name of the challenge>"]`)
	// The line of the finding accepts the name.
	must(t, c.ControlPlane[0].WriteConfig(c.holder().DefaultConfig()+"hosts: [api.lab.test, "+other+"]\n"))
	_, err := c.Services[0].Await(t.Context(), "the new configuration", func(seen lab.Status) error {
		if len(seen.Hosts.Names) != 2 {
			return fmt.Errorf("accepted: %+v", seen.Hosts)
		}
		return nil
	})
	must(t, err)
	c.expectFindings(c.holder(), []string{"certificate-name-missing"}) // of the lab's API server
	if a := selfCheck(); a.Status != 503 {
		t.Errorf("a challenge for an accepted name: %+v", a)
	}
}

// TestVIPNotServed stops the service on the VIP holder.
func TestVIPNotServed(t *testing.T) {
	c := healthy(t, nil)
	c.stop(c.Services[0])
	c.expectFindings(c.standby(), []string{"proxy-unreachable"})
	// A stopped service on another host is not the cause.
	c.stop(c.Services[2])
	c.expectFindings(c.standby(), []string{"proxy-unreachable", "service-not-running"})
}

// TestTrace compares the hops of a working challenge and of an answer with an extra line
// break. Let's Encrypt accepts that answer; cert-manager does not.
func TestTrace(t *testing.T) {
	c := healthy(t, nil)
	key := token + "." + thumbprint
	t.Run("well", func(t *testing.T) {
		c := c.forSubtest(t)
		c.startSolver(token)
		c.requestChallenge(lab.SelfCheckAgent, token, 200)
		r := c.expectFindings(c.holder(), []string{}, "--token", token)
		wantTrace(t, r, "dns ok", "dns ok", "connect ok", "proxy ok", "connect ok", "proxy ok", "ingress ok", "ingress ok",
			"solver ok", "solver ok", "cert-manager ok")
		text, _, err := c.holder().CheckText(t.Context(), shared.binary, "--token", token)
		must(t, err)
		t.Log(text)
	})
	t.Run("a line break", func(t *testing.T) {
		c := c.forSubtest(t)
		c.startWebServer(200, "text/plain", key+"\n")
		c.addRoute(acmePath+token, webPort)
		r := c.expectFindings(c.standby(), []string{"response-not-key"}, "--token", token)
		wantTrace(t, r, "dns ok", "dns ok", "connect ok", "proxy ok", "connect ok", "proxy ok", "ingress ok", "ingress ok",
			"solver problem", "solver problem")
	})
}

func wantTrace(t *testing.T, r lab.CheckReport, want ...string) {
	t.Helper()
	var got []string
	for _, h := range r.Trace {
		got = append(got, h.Step+" "+h.Outcome)
		if h.Step == "connect" && h.Duration <= 0 {
			t.Errorf("a hop without time: %+v", h)
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("hops: got %s\nwant %s\n%+v", strings.Join(got, ", "), strings.Join(want, ", "), r.Trace)
	}
}

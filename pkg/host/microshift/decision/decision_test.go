// SPDX-License-Identifier: Apache-2.0

package decision_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func addrs(texts ...string) []netip.Addr {
	all := make([]netip.Addr, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParseAddr(text)
	}
	return all
}

// onLink returns single addresses on a link.
func onLink(link string, texts ...string) (all []address.Address) {
	for _, a := range addrs(texts...) {
		all = append(all, address.Address{IP: a, Bits: a.BitLen(), LinkName: link})
	}
	return all
}

// dualStack returns the state of a host with one node address of each family.
func dualStack() decision.State {
	var s decision.State
	s.Present, s.Known = true, true
	s.Computed = microshift.Computed{
		NodeIPs: addrs("192.0.2.9", "2001:db8::9"), Internal: addrs("10.44.0.0", "fd02::1:0"),
		Router: microshift.Router{
			Addresses: addrs("10.44.0.0", "192.0.2.9", "192.0.2.10", "2001:db8::9"), HTTP: 80,
			HTTPS: 443,
		},
	}
	return s
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config  string
		change  func(*microshift.Computed)
		state   func(*decision.State)
		reason  report.Reason
		message string
		held    string
		ingress string
		ports   [2]uint16 // of the ingress
	}{
		"router on the node's port 80": {
			reason:  report.NotRequired,
			message: "MicroShift's router serves port 80 of 192.0.2.9, 2001:db8::9, according to its configuration",
		},
		"router on another address": {
			change:  func(c *microshift.Computed) { c.Router.Addresses = addrs("192.0.2.10") },
			reason:  report.Serving,
			message: "holds 192.0.2.9, 2001:db8::9 (MicroShift's node address)",
			held:    "[192.0.2.9 2001:db8::9]",
			ingress: "[192.0.2.10]", ports: [2]uint16{80, 443},
		},
		"router on another port": {
			change:  func(c *microshift.Computed) { c.Router.HTTP, c.Router.HTTPS = 8080, 8443 },
			reason:  report.Serving,
			held:    "[192.0.2.9 2001:db8::9]",
			ingress: "[192.0.2.9 2001:db8::9 192.0.2.10]", ports: [2]uint16{8080, 8443},
		},
		"the admin's port wins": {
			config:  "upstream: {port: 8888, httpsPort: 9443}",
			change:  func(c *microshift.Computed) { c.Router.HTTP, c.Router.HTTPS = 8080, 8443 },
			reason:  report.Serving,
			held:    "[192.0.2.9 2001:db8::9]",
			ingress: "[192.0.2.9 2001:db8::9 192.0.2.10]", ports: [2]uint16{8888, 9443},
		},
		"the admin's port wins, though it is the usual one": {
			config:  "upstream: {port: 80, httpsPort: 443}",
			change:  func(c *microshift.Computed) { c.Router.HTTP, c.Router.HTTPS = 8080, 8443 },
			reason:  report.Serving,
			held:    "[192.0.2.9 2001:db8::9]",
			ingress: "[192.0.2.9 2001:db8::9 192.0.2.10]", ports: [2]uint16{80, 443},
		},
		"router on one family's": {
			change:  func(c *microshift.Computed) { c.Router.Addresses = addrs("192.0.2.9") },
			reason:  report.Serving,
			message: "holds 2001:db8::9",
			held:    "[2001:db8::9]",
			ingress: "[192.0.2.9]", ports: [2]uint16{80, 443},
		},
		"removed": {
			change: func(c *microshift.Computed) { c.Router.Removed = true },
			reason: report.UpstreamUnreachable, message: "ingress.status is Removed",
		},
		"listens nowhere": {
			change: func(c *microshift.Computed) { c.Router.Addresses = nil },
			reason: report.UpstreamUnreachable, message: "this host has no address of ingress.listenAddress",
		},
		"node's address is the internal one": {
			change: func(c *microshift.Computed) {
				c.NodeIPs, c.Internal, c.AdvertiseAddressGiven = addrs("192.0.2.9"), addrs("192.0.2.9"), true
				c.Router.Addresses = addrs("192.0.2.10")
			},
			reason: report.NoVIPs,
			message: "192.0.2.9 is the internal address of MicroShift's API server (apiServer.advertiseAddress), which is " +
				"never redirected: delete that key",
		},
		"node's address is the internal one that nobody gave": {
			change: func(c *microshift.Computed) {
				c.NodeIPs = addrs("10.44.0.0")
				c.Router.Addresses = addrs("192.0.2.10")
			},
			reason: report.NoVIPs, message: "correct node.nodeIP or node.nodeIPv6",
		},
		"the same, and the router there": {
			change: func(c *microshift.Computed) {
				c.NodeIPs, c.Internal, c.AdvertiseAddressGiven = addrs("192.0.2.9"), addrs("192.0.2.9"), true
			},
			reason: report.NotRequired,
		},
		"node's address not here": {
			change: func(c *microshift.Computed) {
				c.NodeIPs, c.Router.Addresses = addrs("192.0.2.99"), addrs("192.0.2.10")
			},
			reason: report.NoVIPs, message: "MicroShift's node address 192.0.2.99 is not on this host: correct node.nodeIP",
		},
		"one of the node's addresses not here": {
			change: func(c *microshift.Computed) {
				c.NodeIPs, c.Router.Addresses = addrs("192.0.2.9", "2001:db8::99"), addrs("192.0.2.10")
			},
			reason: report.Serving, message: "(MicroShift's node address); not on this host: 2001:db8::99: correct node.nodeIP",
			held: "[192.0.2.9]", ingress: "[192.0.2.10]", ports: [2]uint16{80, 443},
		},
		"one not here, and the router on the other": {
			change: func(c *microshift.Computed) {
				c.NodeIPs = addrs("192.0.2.9", "2001:db8::99")
			},
			reason: report.NoVIPs, message: "MicroShift's node address 2001:db8::99 is not on this host",
		},
		"never read": {
			state:  func(s *decision.State) { s.Known, s.Err = false, errors.New("it is broken") },
			reason: report.NoVIPs, message: "it is broken",
		},
		"no address of the node": {
			state:  func(s *decision.State) { s.ComputeErr = microshift.ErrNoNodeAddress },
			reason: report.NoVIPs, message: "set node.nodeIP in",
		},
		"broken since": {
			state:  func(s *decision.State) { s.Err = errors.New("it is broken") },
			reason: report.NotRequired, message: "last good configuration stays in use",
		},
		"broken since, and not well": {
			change: func(c *microshift.Computed) { c.Router.Removed = true },
			state:  func(s *decision.State) { s.Err = errors.New("it is broken") },
			reason: report.UpstreamUnreachable, message: "(it is broken; MicroShift's last good configuration stays in use)",
		},
		"changed since MicroShift was started": {
			state:  func(s *decision.State) { s.Newer = []string{"/m/1", "/m/2", "/m/3", "/m/4"} },
			reason: report.NotRequired,
			message: "(MicroShift's configuration: /m/1, /m/2, /m/3 and 1 more has changed since MicroShift started: " +
				"run systemctl restart microshift)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("config.yaml", []byte(tt.config))
			if err != nil {
				t.Fatal(err)
			}
			s := dualStack()
			if tt.change != nil {
				tt.change(&s.Computed)
			}
			if tt.state != nil {
				tt.state(&s)
			}
			own := onLink("", "192.0.2.9", "192.0.2.10", "2001:db8::9", "10.44.0.0")
			p := decision.Decide(c, s, decision.Excluded(s, own, nil), own)
			if p.Reason != tt.reason || !strings.Contains(p.Message+p.MessageSuffix, tt.message) {
				t.Errorf("%s: %s%s", p.Reason, p.Message, p.MessageSuffix)
			}
			if p.Serves != (tt.held != "") || p.Serves != (p.UnreachableMessage != "") {
				t.Errorf("serves: %v; without the router: %q", p.Serves, p.UnreachableMessage)
			}
			if !p.Serves {
				return
			}
			if diff := cmp.Diff([]string{tt.held, tt.ingress}, []string{
				fmt.Sprint(p.Decision.Held),
				fmt.Sprint(p.Ingress),
			}); diff != "" {
				t.Errorf("held and ingress (-want +got):\n%s", diff)
			}
			if c := p.WithRouterPorts(c); [2]uint16{c.Upstream.Port, c.Upstream.HTTPSPort} != tt.ports {
				t.Errorf("ports %d, %d", c.Upstream.Port, c.Upstream.HTTPSPort)
			}
			if want := fmt.Sprintf("port %d of ", tt.ports[0]); !strings.Contains(p.UnreachableMessage, want) {
				t.Errorf("%q lacks %q", p.UnreachableMessage, want)
			}
		})
	}
}

// TestExcluded: an address of MicroShift's API server is never redirected, whatever of
// MicroShift is known.
func TestExcluded(t *testing.T) {
	t.Parallel()
	absent, unknown := decision.State{}, decision.State{}
	unknown.Present = true
	for name, tt := range map[string]struct {
		state decision.State
		own   []address.Address
		last  []netip.Addr
		want  []netip.Addr
		links bool // the names of the links matter
	}{
		"known": {state: dualStack(), want: addrs("10.44.0.0", "fd02::1:0")},
		"known, and a former one": {
			state: dualStack(), own: onLink("lo", "10.97.0.0"), last: addrs("10.97.0.0"),
			want: addrs("10.97.0.0", "10.44.0.0", "fd02::1:0"), links: true,
		},
		"not known": {
			state: unknown, last: addrs("10.97.0.0"),
			want: append(microshift.DefaultInternalAddresses(), addrs("10.97.0.0")...),
		},
		"absent": {state: absent, own: onLink("lan0", "192.0.2.9")},
		"absent, on lo and br-ex": {state: absent, own: append(onLink("lo", "10.44.0.0"),
			onLink("br-ex", "fd02::1:0")...), want: addrs("10.44.0.0", "fd02::1:0"), links: true},
		"absent, link not known":  {state: absent, own: onLink("", "10.44.0.0"), want: addrs("10.44.0.0"), links: true},
		"absent, on another link": {state: absent, own: onLink("ens3", "10.44.0.0"), links: true},
		"absent, with a network": {state: absent, own: []address.Address{{
			IP: addrs("10.44.0.0")[0], Bits: 13,
			LinkName: "br-ex",
		}}},
		"absent, another one on br-ex": {state: absent, own: onLink("br-ex", "192.0.2.77")},
		"absent, the last one": {
			state: absent, own: onLink("br-ex", "192.0.2.77"), last: addrs("192.0.2.77"),
			want: addrs("192.0.2.77"), links: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, decision.Excluded(tt.state, tt.own, tt.last),
				cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			found := make([]address.Address, len(tt.own))
			for i, a := range tt.own {
				found[i] = address.Address{IP: a.IP, Bits: a.Bits}
			}
			if got := decision.NeedsLinkNames(found, tt.last); got != tt.links {
				t.Errorf("needs the names of links: %v", got)
			}
		})
	}
}

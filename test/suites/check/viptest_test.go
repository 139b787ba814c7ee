// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// awaitVIPTests waits until the last tests of both VIPs on a node have a result and the cause
// of a finding; "" means no finding.
func (c *cluster) awaitVIPTests(s *lab.Service, result, cause string) lab.Status {
	c.t.Helper()
	seen, err := s.Await(c.t.Context(), "the tests of the VIPs: "+result+" "+cause, func(seen lab.Status) error {
		if len(seen.VIPTests) != 2 || slices.ContainsFunc(seen.VIPTests,
			func(r lab.VIPTest) bool { return r.Result != result || r.Cause != cause }) {
			return fmt.Errorf("results: %+v", seen.VIPTests)
		}
		return nil
	})
	must(c.t, err)
	return seen
}

// instance returns the ID of the service that answered a node's tests.
func instance(t *testing.T, seen lab.Status) string {
	t.Helper()
	id := seen.VIPTests[0].Instance
	if len(id) != 16 || slices.ContainsFunc(seen.VIPTests, func(r lab.VIPTest) bool { return r.Instance != id }) {
		t.Errorf("instances: %+v", seen.VIPTests)
	}
	return id
}

// awaitSources waits until the holder has test requests of the first addresses of nodes.
func (c *cluster) awaitSources(s *lab.Service, nodes ...*lab.Node) lab.Status {
	c.t.Helper()
	seen, err := s.Await(c.t.Context(), "test requests", func(seen lab.Status) error {
		for _, n := range nodes {
			for _, from := range n.Addresses.Both() {
				if !slices.ContainsFunc(seen.TestRequests.Sources, func(r lab.TestSource) bool { return r.Address == from }) {
					return fmt.Errorf("%v: %+v", from, seen.TestRequests)
				}
			}
		}
		return nil
	})
	must(c.t, err)
	return seen
}

// expectNoFailure expects that no test failed so far, by the journal.
func (l serviceLog) expectNoFailure() {
	l.t.Helper()
	if text := l.text(); strings.Contains(text, "vip-test-failed") {
		l.t.Errorf("a test has failed:\n%s", text)
	}
}

// TestVIPTests: the hosts on standby are clients outside the holder. A fault that the holder
// cannot see is reported there, and so is its end. A move or a restart is no finding.
func TestVIPTests(t *testing.T) {
	c := healthy(t, nil)
	holder, first, second := c.Services[0], c.Services[1], c.Services[2]
	logs := []serviceLog{c.newServiceLog(first), c.newServiceLog(second)}
	for _, s := range c.Services[1:] {
		if id := instance(t, c.awaitVIPTests(s, "answered", "")); id != status(t, holder).Instance {
			t.Errorf("instance %s, but the holder is %s", id, status(t, holder).Instance)
		}
	}
	for _, m := range c.ControlPlane { // the requests of check are not counted as rejected either
		c.expectFindings(m.Node, []string{})
	}
	seen := c.awaitSources(holder, c.ControlPlane[1].Node, c.ControlPlane[2].Node)
	if r := seen.TestRequests; len(seen.VIPTests) != 0 || r.Total == 0 || r.Others != 0 || len(r.Sources) != 4 ||
		seen.Challenges.Rejected["not-challenge"] != 0 {
		t.Errorf("the holder: %+v, %+v, %+v", seen.VIPTests, r, seen.Challenges)
	}

	t.Run("the holder restarts", func(t *testing.T) {
		c := c.forSubtest(t)
		before := instance(t, status(t, second))
		c.restartService(lab.ServiceOptions{Config: c.holder().DefaultConfig()}, "Serving")
		_, err := second.Await(t.Context(), "another instance", func(seen lab.Status) error {
			if len(seen.VIPTests) != 2 || slices.ContainsFunc(seen.VIPTests,
				func(r lab.VIPTest) bool { return r.Instance == before || r.Result != "answered" }) {
				return fmt.Errorf("%+v", seen.VIPTests)
			}
			return nil
		})
		must(t, err)
		logs[1].expectNoFailure()
	})
	// The subtest's cleanup has stopped the service.
	c.restartService(lab.ServiceOptions{Config: c.holder().DefaultConfig()}, "Serving")
	holder = c.Services[0]

	t.Run("the VIPs move", func(t *testing.T) {
		c := c.forSubtest(t)
		before := instance(t, c.awaitVIPTests(second, "answered", ""))
		must(t, c.ControlPlane[0].Disconnect(t.Context()))
		c.onCleanup(func(ctx context.Context) error {
			return errors.Join(c.ControlPlane[0].Connect(ctx), c.AwaitVIPs(ctx))
		})
		c.awaitReason(first, "Serving")
		_, err := second.Await(t.Context(), "the instance of the next holder", func(seen lab.Status) error {
			if len(seen.VIPTests) != 2 || seen.VIPTests[0].Instance == before || seen.VIPTests[1].Instance == before ||
				seen.VIPTests[0].Result != "answered" {
				return fmt.Errorf("%+v", seen.VIPTests)
			}
			return nil
		})
		must(t, err)
		c.awaitNoVIPTests(first) // which drops its results when a test that runs ended
	})
	c.awaitReason(holder, "Serving")
	for i, s := range c.Services[1:] {
		c.awaitVIPTests(s, "answered", "")
		logs[i].expectNoFailure()
	}

	t.Run("the holder's firewall drops the internal port", func(t *testing.T) {
		c := c.forSubtest(t)
		c.loadFaultRules(c.holder(),
			`chain input { type filter hook input priority 0; iifname != "lo" tcp dport 8888 drop; }`)
		for i, s := range c.Services[1:] {
			c.awaitVIPTests(s, "timed-out", "vip-unreachable-from-here")
			const message = "Port 80 of the API VIP 192.0.2.5 cannot be reached from this host"
			if text := logs[i].text(); !strings.Contains(text, message) || !strings.Contains(text, "event=vip-test-failed") {
				t.Errorf("the log:\n%s", text)
			}
			must(t, lab.Eventually(t.Context(), "STATUS=", func(context.Context) error {
				if line := s.Notifications.Status(); !strings.Contains(line, " cannot be reached from this host: ") ||
					!strings.Contains(line, "[vip-unreachable-from-here]") {
					return errors.New(line)
				}
				return nil
			}))
		}
		c.awaitReason(holder, "Serving")                                  // which cannot see it
		r := c.expectFindings(c.standby(), []string{"proxy-unreachable"}) // of both families
		c.expectText(r, "proxy-unreachable", "192.0.2.5:80 (also [fd4e:5f2a:9c01:1::5]:80)",
			"The tests of the service on this host show the same [vip-unreachable-from-here]")
	})
	for i, s := range c.Services[1:] {
		c.awaitVIPTests(s, "answered", "")
		if text := logs[i].text(); strings.Count(text, "event=vip-test-recovered") != 2 {
			t.Errorf("the log:\n%s", text)
		}
	}

	t.Run("a host's own output chain", func(t *testing.T) {
		c := c.forSubtest(t)
		c.loadFaultRules(c.standby(), "chain output { type filter hook output priority 0; tcp dport 80 drop; }")
		c.awaitVIPTests(second, "not-sent", "vip-test-not-sent")
		c.awaitVIPTests(first, "answered", "")
	})
	c.awaitVIPTests(second, "answered", "")

	t.Run("two hosts", func(t *testing.T) {
		c := c.forSubtest(t)
		c.holdVIPs(c.ControlPlane[1].Node)
		c.awaitReason(first, "Serving")
		// The switch brings each connection to another one of them.
		turn := 0
		c.onCleanup(func(ctx context.Context) error { return c.neighbours(ctx, "del", c.holder()) })
		_, err := second.Await(t.Context(), "two hosts", func(seen lab.Status) error {
			if len(seen.VIPTests) == 2 && seen.VIPTests[0].Cause == "vip-two-hosts" &&
				seen.VIPTests[1].Cause == "vip-two-hosts" {
				return nil
			}
			if n := status(t, holder).TestRequests.Total + status(t, first).TestRequests.Total; n != turn {
				turn = n
				must(t, c.neighbours(t.Context(), "replace", c.ControlPlane[turn/2%2].Node))
			}
			return fmt.Errorf("%+v", seen.VIPTests)
		})
		must(t, err)
	})
	c.awaitReason(first, "Standby")
	c.awaitVIPTests(second, "answered", "")

	must(t, c.standby().WriteConfig(c.standby().TestConfig(0)))
	c.awaitNoVIPTests(second)
}

func (c *cluster) awaitNoVIPTests(s *lab.Service) {
	c.t.Helper()
	_, err := s.Await(c.t.Context(), "no test", func(seen lab.Status) error {
		if len(seen.VIPTests) > 0 {
			return fmt.Errorf("%+v", seen.VIPTests)
		}
		return nil
	})
	must(c.t, err)
}

func status(t *testing.T, s *lab.Service) lab.Status {
	t.Helper()
	seen, err := s.Status(t.Context())
	must(t, err)
	return seen
}

// neighbours changes the entries of the VIPs in a standby node's table of neighbours: replace
// has packets sent to a host.
func (c *cluster) neighbours(ctx context.Context, change string, to *lab.Node) error {
	link, err := to.Run(ctx, "ip", "-o", "link", "show", "dev", "br-ex")
	if err != nil {
		return err
	}
	_, mac, _ := strings.Cut(link, "link/ether ")
	for _, vip := range c.API.Both() {
		if _, err := c.standby().Run(ctx, "ip", "neigh", change, vip.String(), "lladdr", strings.Fields(mac)[0], "dev",
			"br-ex", "nud", "permanent"); err != nil {
			return err
		}
	}
	return nil
}

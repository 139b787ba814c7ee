// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// awaitSelfTests waits until the self-tests of both VIPs have a result on a node: ok, or the
// cause of a failure. The metrics must show the same.
func (c *cluster) awaitSelfTests(s *lab.Service, want string) lab.Status {
	c.t.Helper()
	seen, err := s.Await(c.t.Context(), "the self-tests: "+want, func(seen lab.Status) error {
		if len(seen.SelfTests) != 2 {
			return fmt.Errorf("results: %+v", seen.SelfTests)
		}
		for _, r := range seen.SelfTests {
			if want == "ok" != r.OK || !r.OK && r.Cause != want {
				return fmt.Errorf("results: %+v", seen.SelfTests)
			}
		}
		return nil
	})
	must(c.t, err)
	metrics, err := s.Show(c.t.Context(), "-o", "prometheus")
	must(c.t, err)
	for _, vip := range c.API.Both() {
		series := fmt.Sprintf(`http01_proxy_self_test_failed{cause="%s",vip="%s"} 1`, want, vip)
		if want == "ok" {
			series = fmt.Sprintf(`http01_proxy_self_test_failed{cause="",vip="%s"} 0`, vip)
		}
		if !strings.Contains(metrics, series+"\n") ||
			!strings.Contains(metrics, fmt.Sprintf("http01_proxy_self_test_timestamp_seconds{vip=%q} ", vip.String())) {
			c.t.Errorf("the metrics lack %s:\n%s", series, metrics)
		}
	}
	return seen
}

// serviceLog reads the log of a service from a position on: services of earlier tests on the
// node have written to the same file.
type serviceLog struct {
	*lab.Service

	t     *testing.T
	begin int
}

func (c *cluster) newServiceLog(s *lab.Service) serviceLog {
	l := serviceLog{Service: s, t: c.t}
	l.begin = len(l.text())
	return l
}

func (l serviceLog) text() string {
	l.t.Helper()
	text, err := os.ReadFile(l.Log)
	must(l.t, err)
	return string(text[l.begin:])
}

// expectNotCounted expects that no self-test was counted or logged as a challenge.
func (l serviceLog) expectNotCounted(seen lab.Status) {
	l.t.Helper()
	if ch := seen.Challenges; ch.Total != 0 || len(ch.Recent) != 0 {
		l.t.Errorf("challenges: %+v", ch)
	}
	if text := l.text(); strings.Contains(text, "challenge-started") {
		l.t.Errorf("a challenge is in the log:\n%s", text)
	}
}

// TestSelfTest: a fault of the path is reported between two renewals, by its finding, and
// so is its end.
func TestSelfTest(t *testing.T) {
	config := func(n *lab.Node, interval string) string {
		return n.DefaultConfig() + "selfTest: {interval: " + interval + "}\n"
	}
	c := healthy(t, func(n *lab.Node) string { return config(n, "10s") })
	s := c.Services[0]
	log := c.newServiceLog(s)
	log.expectNotCounted(c.awaitSelfTests(s, "ok"))
	c.expectFindings(c.holder(), []string{})
	for _, other := range c.Services[1:] {
		seen, err := other.Status(t.Context())
		must(t, err)
		if len(seen.SelfTests) != 0 {
			t.Errorf("self-tests on standby: %+v", seen.SelfTests)
		}
	}

	t.Run("the router does not run", func(t *testing.T) {
		c := c.forSubtest(t)
		must(t, c.Worker.StopRouter(t.Context()))
		c.onCleanup(func(ctx context.Context) error { return c.Worker.StartRouter(ctx, lab.RouterOptions{}) })
		log.expectNotCounted(c.awaitSelfTests(s, "ingress-refused"))
		if text := log.text(); !strings.Contains(text,
			"the self-test of port 80 of 192.0.2.5 failed twice (ingress-refused): 192.0.2.6:80 refuses connections") {
			t.Errorf("the log:\n%s", text)
		}
		// The fault itself explains the self-test.
		c.expectFindings(c.holder(), []string{"ingress-refused"})
		must(t, c.holder().WriteConfig(config(c.holder(), "24h")))
		must(t, lab.Eventually(t.Context(), "the other interval", func(context.Context) error {
			if text := log.text(); !strings.Contains(text, "new configuration active") {
				return errors.New(text)
			}
			return nil
		}))
	})
	c.awaitReason(s, "Serving")
	r := c.expectFindings(c.holder(), []string{"self-test-failed"})
	c.expectText(r, "self-test-failed", "The last self-test of 192.0.2.5:80 and [fd4e:5f2a:9c01:1::5]:80, at ",
		"failed with the finding ingress-refused: 192.0.2.6:80 refuses connections")
	must(t, c.holder().WriteConfig(config(c.holder(), "10s")))
	c.awaitSelfTests(s, "ok")
	if text := log.text(); strings.Count(text, "succeeds again, after ") != 2 {
		t.Errorf("the log:\n%s", text)
	}

	t.Run("the path on the host is blocked", func(t *testing.T) {
		c := c.forSubtest(t)
		dropHostClients(c)
		c.awaitSelfTests(s, "self-check-fails")
		c.expectFindings(c.holder(), []string{"self-check-fails"})
	})
	log.expectNotCounted(c.awaitSelfTests(s, "ok"))

	must(t, c.holder().WriteConfig(config(c.holder(), "0s")))
	_, err := s.Await(t.Context(), "no self-test", func(seen lab.Status) error {
		if len(seen.SelfTests) > 0 {
			return fmt.Errorf("results: %+v", seen.SelfTests)
		}
		return nil
	})
	must(t, err)
	c.expectFindings(c.holder(), []string{})
}

// TestSelfTestOfEachHolder: where BGP announces the VIPs, each holder tests its own path. A
// request that reached another holder would be counted there as a challenge.
func TestSelfTestOfEachHolder(t *testing.T) {
	c := healthy(t, func(n *lab.Node) string { return n.DefaultConfig() + "selfTest: {interval: 10s}\n" })
	n, service := c.standby(), c.Services[2]
	c.holdVIPs(n)
	c.withBGP(n, service)
	for _, s := range []*lab.Service{c.Services[0], service} {
		c.newServiceLog(s).expectNotCounted(c.awaitSelfTests(s, "ok"))
	}
	// The table of one holder does not redirect connections of the host itself any more.
	c.loadFaultRules(n,
		"chain output { type nat hook output priority -120; tcp dport 80 fib daddr type local redirect to :81; }")
	c.awaitSelfTests(service, "self-check-fails")
	c.awaitSelfTests(c.Services[0], "ok")
}

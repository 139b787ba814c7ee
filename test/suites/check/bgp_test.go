// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// withBGP writes kube-vip's static pods for a node until the test ends, and waits for the
// service.
func (c *cluster) withBGP(n *lab.Node, s *lab.Service) {
	c.t.Helper()
	for path, text := range n.KubeVIPPods(c.API, c.Ingress) {
		writeTestFile(c.t, path, text)
	}
	c.awaitManagement(s, "BGP")
}

// awaitManagement waits until the service has found how the VIPs are managed.
func (c *cluster) awaitManagement(s *lab.Service, want string) {
	c.t.Helper()
	_, err := s.Await(c.t.Context(), "the management of the VIPs", func(seen lab.Status) error {
		for _, v := range seen.VIPs {
			if v.Management != want {
				return fmt.Errorf("want %q: %+v", want, seen.VIPs)
			}
		}
		return nil
	})
	must(c.t, err)
}

// holdVIPs adds the API VIPs to a node as kube-vip does, until the test ends.
func (c *cluster) holdVIPs(n *lab.Node) {
	c.t.Helper()
	for _, vip := range c.API.Both() {
		must(c.t, lab.AddVIP(c.t.Context(), n, vip))
		c.onCleanup(func(ctx context.Context) error { return lab.RemoveVIP(ctx, n, vip) })
	}
}

// TestBGP has the API VIPs on two hosts at once, which is right where kube-vip manages them.
func TestBGP(t *testing.T) {
	c := healthy(t, nil)
	n, service := c.standby(), c.Services[2]
	t.Run("on this host and on another", func(t *testing.T) {
		c := c.forSubtest(t)
		c.holdVIPs(n)
		c.awaitReason(service, "Serving")
		c.withBGP(n, service)
		r := c.expectFindings(n, []string{})
		if text := r.Check("vip-holder").Text; !strings.Contains(text, "announced by BGP") || r.Management != "BGP" {
			t.Errorf("vip-holder: %s, management %q", text, r.Management)
		}
		if text := r.Check("vips").Text; !strings.Contains(text, "kube-vip's static pods in "+n.Manifests()) {
			t.Errorf("vips: %s", text)
		}
		for _, vip := range c.API.Both() {
			c.run(n, fmt.Sprintf("ip route del %s/%d dev br-ex table %d", vip, vip.BitLen(), lab.VIPTable),
				fmt.Sprintf("ip route add %s/%d dev br-ex table %d proto 248", vip, vip.BitLen(), lab.VIPTable))
		}
		r = c.expectFindings(n, []string{"vip-not-announced"})
		c.expectText(r, "vip-not-announced", fmt.Sprintf("The API VIP %s (also %s) is on this host, but routing table 198", c.API.V4, c.API.V6))
	})
	t.Run("on others only", func(t *testing.T) {
		c := c.forSubtest(t)
		c.withBGP(n, service)
		c.expectFindings(n, []string{})
	})
	t.Run("a pending challenge", func(t *testing.T) {
		c := c.forSubtest(t)
		c.holdVIPs(n)
		c.awaitReason(service, "Serving")
		c.withBGP(n, service)
		c.startSolver(token)
		// Another holder may have got the request of cert-manager.
		r := c.expectFindings(n, []string{}, "--token", token)
		if text := r.Check("self-check").NotChecked; !strings.Contains(text,
			"whether cert-manager requests the challenge: BGP sends requests to several hosts") {
			t.Errorf("self-check, not checked: %q", text)
		}
		if last := r.Trace[len(r.Trace)-1]; last.Step != "solver" || last.Outcome != "ok" {
			t.Errorf("last step: %+v", last)
		}
	})
	t.Run("duplicate address detection has failed", func(t *testing.T) {
		c := c.forSubtest(t)
		c.withBGP(n, service)
		c.run(n, fmt.Sprintf("ip address add %s/128 dev br-ex", c.API.V6), fmt.Sprintf("ip address flush dev br-ex to %s",
			c.API.V6))
		must(t, lab.Eventually(t.Context(), "the end of duplicate address detection", func(ctx context.Context) error {
			shown, err := n.Run(ctx, "ip", "-6", "address", "show", "dev", "br-ex", "dadfailed")
			if err == nil && !strings.Contains(shown, c.API.V6.String()) {
				err = fmt.Errorf("addresses with a failure: %q", shown)
			}
			return err
		}))
		r := c.expectFindings(n, []string{"vip-dad-failed"})
		c.expectText(r, "vip-dad-failed",
			fmt.Sprintf("The API VIP %s is on br-ex of this host, but the kernel does not use it", c.API.V6))
		must(t, n.RunCommands(t.Context(), r.Commands("vip-dad-failed")))
		c.expectFindings(n, []string{})
	})
	t.Run("a static pod without a VIP", func(t *testing.T) {
		c := c.forSubtest(t)
		c.awaitManagement(service, "")
		path := filepath.Join(n.Manifests(), "0010-kube-vip-api.yaml")
		writeTestFile(t, path, lab.KubeVIPManifest("kube-vip-api", "api.lab.test"))
		c.awaitReason(service, "NoVIPs")
		r := c.expectFindings(n, []string{"kube-vip-unusable"})
		c.expectText(r, "kube-vip-unusable", path, `the variable address is "api.lab.test", which is not a VIP`)
	})
	c.awaitReason(service, "Standby")
	c.expectFindings(n, []string{})
	t.Run("a worker", func(t *testing.T) {
		c := c.forSubtest(t)
		w := c.Worker.Node
		must(t, w.WriteConfig(""))
		for path, text := range w.KubeVIPPods(lab.Pair{}, c.Ingress) {
			writeTestFile(t, path, text)
		}
		c.expectNothingToCheck(w, " has no static pod of the API server")
	})
	t.Run("on no host", func(t *testing.T) {
		c := c.forSubtest(t)
		stopAllKeepalived(c)
		c.withBGP(n, service)
		r := c.expectFindings(n, []string{"proxy-unreachable"})
		c.expectText(r, "proxy-unreachable", c.API.V4.String(), "or kube-vip with BGP")
	})
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestHealthy holds that check finds nothing in a healthy cluster and exits with 0, on the
// VIP holder and on another control-plane node.
func TestHealthy(t *testing.T) {
	c := healthy(t, nil)
	for _, m := range c.ControlPlane[:2] {
		c.expectHealthy(m.Node)
	}
}

// TestSelection runs some checks, prints findings only, and ends a run early.
func TestSelection(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	r := c.expectFindings(n, []string{}, "--only", "vips,dns")
	var names []string
	for _, result := range r.Checks {
		names = append(names, result.Name)
	}
	if diff := cmp.Diff([]string{"vips", "dns"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, code, err := n.CheckText(t.Context(), shared.binary, "--only", "vips,config", "--quiet"); err != nil ||
		code != 0 || text != "" {
		t.Errorf("exit code %d, %v: %s", code, err, text)
	}
	c.loadFaultRules(n, "chain output { type filter hook output priority 0; udp dport 123 drop; }")
	r, code := c.check(n, "--only", "vips,clock", "--timeout", "500ms")
	if code != 4 || !slices.Contains(r.Incomplete, "clock") {
		t.Errorf("exit code %d: %+v", code, r)
	}
	// Nothing limits the names of challenges in this lab.
	if text, code, err := n.CheckText(t.Context(), shared.binary, "--only", "config"); err != nil || code != 0 ||
		!strings.HasPrefix(text, "- config  ") || !strings.Contains(text, "the API's name is not known") {
		t.Errorf("exit code %d, %v: %s", code, err, text)
	}
	// Nothing replaces a configuration that is rejected from the start.
	path := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(path, []byte("upstream: {prot: 80}\n"), 0o600))
	text, code, err := n.CheckText(t.Context(), shared.binary, "--config", path, "--state-dir", t.TempDir())
	must(t, err)
	if code != 3 || !strings.Contains(text, "[config-invalid] ") ||
		!strings.Contains(text, "- trust         not checked: configuration rejected\n") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// expectHealthy expects every check to run completely without a finding. On a busy machine
// a query can time out, so check runs again.
func (c *cluster) expectHealthy(n *lab.Node) {
	c.t.Helper()
	// As OpenShift has it: a host without the API's name accepts challenges for any name.
	must(c.t, os.WriteFile(n.APIServerURL(), []byte(lab.APIServerURLText(internalName)), 0o600))
	c.t.Cleanup(func() { _ = os.Remove(n.APIServerURL()) })
	var unseen []string
	for range 5 {
		unseen = nil
		for _, result := range c.expectFindings(n, []string{}).Checks {
			if result.Outcome != "ok" || result.NotChecked != "" {
				unseen = append(unseen, fmt.Sprintf("%s on %s: %s: %s %s", result.Name, n, result.Outcome, result.Text,
					result.NotChecked))
			}
		}
		if len(unseen) == 0 {
			return
		}
	}
	c.t.Error(strings.Join(unseen, "\n"))
}

// Rules of other programs on an OpenShift node.
var (
	//go:embed testdata/openshift.iptables
	openshiftChains string
	//go:embed testdata/openshift.nft
	openshiftTables string
)

// TestHealthyOpenShift repeats TestHealthy on nodes as OpenShift has them: tables of
// kubelet and OVN-Kubernetes, a firewall with the needed ports, a single IPv6 address on
// br-ex beside OVN-Kubernetes's own, a second NIC in the same network, a resolver on the
// node that answers with the VIPs, and an egress proxy. A firewall that was generated before
// the installation lacks the ports.
func TestHealthyOpenShift(t *testing.T) {
	c := healthy(t, nil)
	for _, m := range []*lab.ControlPlaneNode{c.ControlPlane[0], c.ControlPlane[2]} {
		n := m.Node
		c.loadOpenShiftRules(n)
		c.secondNIC(n)
		c.useSingleIPv6Address(m)
		c.run(n, "ip address add 169.254.0.2/17 dev br-ex; ip address add fd69::2/112 dev br-ex nodad",
			"ip address del 169.254.0.2/17 dev br-ex; ip address del fd69::2/112 dev br-ex")
		c.addLocalResolver(n)
		writeTestFile(t, n.ProxyEnv(), "HTTP_PROXY=http://proxy.lab.test:3128\nHTTPS_PROXY=http://proxy.lab.test:3128\n"+
			"NO_PROXY=.cluster.local,.svc,10.128.0.0/14,127.0.0.1,192.0.2.0/24,api-int.lab.test,api.lab.test,localhost\n")
	}
	nodes := []*lab.Node{c.ControlPlane[0].Node, c.ControlPlane[2].Node}
	c.awaitReason(c.Services[0], "Serving")
	c.awaitSources(c.Services[0], nodes[1]) // check waits for its next test
	c.loadNodeFirewall(c.holder(), "before")
	c.expectFindings(c.holder(), []string{"packet-dropped"})
	for _, n := range nodes {
		c.loadNodeFirewall(n, "after")
	}
	for _, n := range nodes {
		c.expectHealthy(n)
		text, _, err := n.CheckText(t.Context(), shared.binary)
		must(t, err)
		t.Log(text)
	}
}

// loadOpenShiftRules loads the rules of other programs on a node until the test ends.
func (c *cluster) loadOpenShiftRules(n *lab.Node) {
	c.t.Helper()
	other := strings.NewReplacer(
		c.API.V4.String()+"/32", c.API.V6.String()+"/128", "192.0.2.200/32", "2001:db8:200::1/128", "172.30.1.2:80",
		"[fd02::2]:80",
		"127.0.0.0/8", "::1/128", "icmp-port-unreachable", "icmp6-port-unreachable").Replace(openshiftChains)
	for _, load := range [][]string{
		{openshiftChains, "iptables-nft-restore"},
		{other, "ip6tables-nft-restore"},
		{openshiftTables, "nft", "-f", "-"},
	} {
		_, err := n.Input(c.t.Context(), load[0], load[1], load[2:]...)
		must(c.t, err)
	}
	c.onCleanup(func(ctx context.Context) error {
		tables := []string{"ip mangle", "ip nat", "ip filter", "ip6 mangle", "ip6 nat", "ip6 filter", "inet ovn-kubernetes"}
		_, err := n.Run(ctx, "nft", "delete table "+strings.Join(tables, "; delete table "))
		return err
	})
}

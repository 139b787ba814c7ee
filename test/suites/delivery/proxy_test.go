// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// proxyEnvironment is the file with the cluster-wide proxy for a node's services.
const proxyEnvironment = "/etc/mco/proxy.env"

// blockDirectEgress blocks direct connections of a host to networks outside the machine
// network.
func (n *node) blockDirectEgress() {
	n.t.Helper()
	i := slices.Index(n.ControlPlane, n.Host)
	var rules strings.Builder
	rules.WriteString("table inet egress {\n\tchain forward {\n\t\ttype filter hook forward priority filter;\n")
	for _, a := range n.Lab.ControlPlaneAddresses(i) {
		family := map[bool]string{true: "ip", false: "ip6"}[a.Addr().Is4()]
		fmt.Fprintf(&rules, "\t\t%s saddr %s tcp dport 443 counter reject with tcp reset\n", family, a.Addr())
	}
	must1(n.Lab.Gateway.Input(n.t.Context(), rules.String()+"\t}\n}\n", "nft", "-f", "-"))(n.t)
	n.t.Cleanup(func() {
		must1(n.Lab.Gateway.Run(context.Background(), "nft", "delete", "table", "inet", "egress"))(n.t)
	})
}

// TestPullThroughEgressProxy holds that a host pulls through the cluster's egress proxy
// when it has no other route.
func TestPullThroughEgressProxy(t *testing.T) {
	n := newNode(t)
	proxy := n.Lab.Egress
	must(t, proxy.Start(t.Context(), lab.EgressOptions{}))
	t.Cleanup(func() { must(t, proxy.Stop(context.Background())) })
	url := proxy.URL("http", "", proxy.Addresses.V4.String())
	n.blockDirectEgress()
	n.apply(n.images[first])
	n.awaitInstaller(t, n.Host, "cannot pull")
	n.awaitUnitState(service, "inactive")

	must(t, n.WriteFile(proxyEnvironment, "HTTP_PROXY="+url+"\nHTTPS_PROXY="+url+
		"\nNO_PROXY=.cluster.local,.svc,127.0.0.1,localhost\n", 0o644))
	t.Cleanup(func() { must(t, n.RemoveFile("/etc/mco")) })
	must1(n.Run(t.Context(), "systemctl", "restart", installer))(t)
	n.awaitInstaller(t, n.Host, "is installed")
	n.awaitUnitState(service, "active")
	must(t, n.checkRelease(t.Context(), n.Host, first))
	requests := must1(proxy.Requests())(t)
	// Start connects without a request to test that the proxy listens.
	requests = slices.DeleteFunc(requests,
		func(line string) bool { return strings.Contains(line, "error:transaction-end-before-headers") })
	connect := " CONNECT " + n.Registry.Name + ":443 "
	if len(requests) == 0 || slices.ContainsFunc(requests,
		func(line string) bool { return !strings.Contains(line, connect) }) {
		t.Errorf("requests at the proxy, want only%s:\n%s", connect, strings.Join(requests, "\n"))
	}
}

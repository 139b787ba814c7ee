// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// port is the service's port.
const port = "8888"

// expectIdle expects one state of every service, no table, no listener, and the routers'
// own port 80.
func (s *testbed) expectIdle(reason string) {
	s.t.Helper()
	for _, m := range s.ControlPlane {
		_, err := s.services[m.Name].AwaitReason(s.t.Context(), reason)
		must(s.t, err)
		s.expectNoTableOrListener(m.Node)
	}
	s.expectStates()
}

// expectNoTableOrListener expects neither table nor listener of the service on a node.
func (s *testbed) expectNoTableOrListener(n *lab.Node) {
	s.t.Helper()
	table, err := n.HasServiceTable(s.t.Context())
	if table || err != nil {
		s.t.Errorf("a table on %s: %t, %v", n, table, err)
	}
	listeners, err := n.Run(s.t.Context(), "ss", "-Hltnp")
	must(s.t, err)
	for line := range strings.Lines(listeners) {
		if strings.Contains(line, "http01-proxyd") || strings.Contains(line, ":"+port+" ") {
			s.t.Errorf("a listener on %s: %s", n, line)
		}
	}
}

// TestSNOWithoutVIPs runs a single node of platform none, without keepalived.
func TestSNOWithoutVIPs(t *testing.T) {
	s := startSingleNode(t, lab.Layout{NoVIPs: true})
	s.expectCertificatesWithoutService(s.ControlPlane[0].Addresses)
}

// TestSNOWithOneVIP runs a single node with one VIP for API and ingress.
func TestSNOWithOneVIP(t *testing.T) {
	s := startSingleNode(t, lab.Layout{SharedVIP: true}, "master0 vips-shared")
	s.expectCertificatesWithoutService(s.API)
}

// TestSingleNodeBecomesThree starts the service on a single node without keepalived. Then two nodes
// join, and keepalived's static pod and its file appear on all. The first service stays the same process.
func TestSingleNodeBecomesThree(t *testing.T) {
	s := open(t, lab.Layout{Compact: true})
	s.startClusterServices()
	for _, m := range s.ControlPlane {
		must(t, m.StopKeepalived(t.Context()))
		must(t, os.RemoveAll(filepath.Dir(m.KeepalivedConfig())))
	}
	single := s.ControlPlane[0].Node
	first := s.start(single, lab.ServiceOptions{})
	_, err := first.AwaitReason(t.Context(), "NotRequired")
	must(t, err)
	s.expectNoTableOrListener(single)
	for _, m := range s.ControlPlane {
		if m.Node != single {
			s.start(m.Node, lab.ServiceOptions{})
		}
		writeTestFile(t, filepath.Join(m.Manifests(), "keepalived.yaml"), "kind: Pod\n")
		must(t, m.StartKeepalived(t.Context()))
	}
	s.awaitPlacement()
	s.expectStates()
	s.expectCompactCertificates(true)
	must(t, first.Alive())
}

// startSingleNode starts a single node on which the service is idle, with the expected
// findings of check.
func startSingleNode(t *testing.T, y lab.Layout, findings ...string) *testbed {
	t.Helper()
	y.ControlPlaneNodes, y.Compact = 1, true
	s := startServices(t, y)
	s.expectIdle("NotRequired")
	s.expectRouterAnswers()
	s.expectFindings(findings...)
	return s
}

// expectCertificatesWithoutService orders certificates for addresses outside the service,
// over each family and both, and expects that no service counted a challenge.
func (s *testbed) expectCertificatesWithoutService(at lab.Pair) {
	s.t.Helper()
	for i, p := range [certificateOrders]lab.Pair{{V4: at.V4}, {V6: at.V6}, at} {
		name := idleName(i, s.Domain)
		must(s.t, s.Internet.SetName(s.t.Context(), name, p))
		_, err := s.Certificate(s.t.Context(), lab.Order{Name: name, SelfCheckFrom: s.Pods[0]})
		must(s.t, err)
	}
	for name := range s.services {
		if got := s.challenges(name); got != 0 {
			s.t.Errorf("%s counts %d challenges", name, got)
		}
	}
}

// certificateOrders are the orders of expectCertificatesWithoutService.
const certificateOrders = 3

func idleName(i int, domain string) string { return fmt.Sprintf("idle-%d.%s", i, domain) }

// TestExternalLoadBalancer puts the VIPs on a load balancer, the gateway, which forwards
// challenges on port 80 of the API to the routers, as documented.
func TestExternalLoadBalancer(t *testing.T) {
	s := open(t, lab.Layout{NoVIPs: true})
	s.startClusterServices()
	for _, m := range s.ControlPlane {
		writeTestFile(t, filepath.Join(m.DisabledManifests(), "keepalived.yaml"), "kind: Pod\n")
	}
	s.startAll()
	s.expectIdle("ExternalLoadBalancer")
	s.startLoadBalancer()
	s.expectFilter()
	s.expectCertificatesWithoutService(s.API)
	s.expectFindings("master0 vips-user-managed", "master1 vips-user-managed", "master2 vips-user-managed")
	s.expectIdle("ExternalLoadBalancer")
	for _, m := range s.ControlPlane {
		s.expectPort80Closed(m.Node)
	}
}

// expectPort80Closed expects that port 80 of a node without a router refuses connections.
func (s *testbed) expectPort80Closed(n *lab.Node) {
	s.t.Helper()
	for _, a := range n.Addresses.Both() {
		conn, err := s.Internet.Dial(s.t.Context(), "tcp", web(a))
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			s.t.Errorf("port 80 of %s: %v", n, err)
		}
	}
}

// recipes is the document with the configuration of HAProxy.
const recipes = "../../../docs/external-load-balancer.md"

// recipe returns the documented configuration of HAProxy.
func recipe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recipes)
	must(t, err)
	block := regexp.MustCompile("(?ms)^```haproxy\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(block) != 1 {
		t.Fatalf("%s has %d configurations of HAProxy, want one", recipes, len(block))
	}
	return string(block[0][1])
}

// startLoadBalancer adds the VIPs to the gateway and starts a HAProxy there with the documented
// configuration and the addresses of the lab.
func (s *testbed) startLoadBalancer() {
	s.t.Helper()
	for _, vip := range s.AllAPI() {
		_, err := s.Gateway.Run(s.t.Context(), "ip", "address", "add", netip.PrefixFrom(vip, vip.BitLen()).String(), "dev",
			"machine", "nodad")
		must(s.t, err)
	}
	file := filepath.Join(s.Gateway.Dir, "balancer.cfg")
	names := []string{apiName}
	for i := range certificateOrders {
		names = append(names, idleName(i, s.Domain))
	}
	writeTestFile(s.t, file, strings.ReplaceAll(recipe(s.t), "api.cluster.example.com", strings.Join(names, " ")))
	checked, err := s.Gateway.Run(s.t.Context(), "haproxy", "-c", "-f", file)
	must(s.t, err)
	if strings.Contains(checked, "[WARNING]") || strings.Contains(checked, "[ALERT]") {
		s.t.Errorf("HAProxy reports problems of the configuration in %s:\n%s", recipes, checked)
	}
	p, err := s.Gateway.Start(lab.Command{Name: "balancer", Path: "haproxy", Args: []string{"-db", "-f", file}})
	must(s.t, err)
	must(s.t, lab.Eventually(s.t.Context(), "the load balancer", func(ctx context.Context) error {
		if err := p.Alive(); err != nil {
			return err
		}
		for _, vip := range s.AllAPI() {
			conn, err := s.Internet.Dial(ctx, "tcp", web(vip))
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
		return nil
	}))
}

// expectFilter expects that the load balancer forwards challenges for the API's name with GET and
// HEAD to the router, which has no route for them, and rejects all other requests.
func (s *testbed) expectFilter() {
	s.t.Helper()
	const token = "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"
	for _, vip := range s.AllAPI() {
		for host, forwarded := range map[string]bool{
			apiName + ":80": true, strings.ToUpper(apiName): true,
			"console.apps.lab.test": false, "x" + apiName: false, "": false,
		} {
			s.expectForwarded(vip, "GET "+token, host, forwarded)
		}
		for line, forwarded := range map[string]bool{
			"GET " + token:                     true,
			"HEAD " + token:                    true,
			"GET " + token + "?query":          true,
			"POST " + token:                    false,
			"GET /":                            false,
			"GET /healthz":                     false,
			"GET /.well-known/acme-challenge/": false,
			"GET /.well-known/acme-challenge/../../healthz": false,
			"GET /.well-known/acme-challenge/%2e%2e%2fx":    false,
			"GET " + token + "/x":                           false,
			"GET /x" + token:                                false,
			"GET /xwell-known/acme-challenge/x":             false,
		} {
			s.expectForwarded(vip, line, apiName, forwarded)
		}
	}
}

// expectForwarded expects that the load balancer forwards or rejects a request.
func (s *testbed) expectForwarded(vip netip.Addr, line, host string, forwarded bool) {
	s.t.Helper()
	text, err := s.Internet.Raw(s.t.Context(), web(vip), line+" HTTP/1.1\r\nHost: "+host+
		"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	must(s.t, err)
	rejected := strings.HasPrefix(text, "HTTP/1.1 400 ") &&
		strings.HasSuffix(text, "\r\n\r\nOnly /.well-known/acme-challenge/* is allowed")
	if rejected == forwarded || forwarded && !strings.HasPrefix(text, "HTTP/1.1 503 ") &&
		!strings.HasPrefix(text, "HTTP/1.0 503 ") {
		s.t.Errorf("%s for %q at %s, forwarded: %t, got %.200q", line, host, vip, forwarded, text)
	}
}

// TestArbiter runs two control-plane nodes with routers and an arbiter, whose keepalived
// has no instance of the API.
func TestArbiter(t *testing.T) {
	s := startServices(t, lab.Layout{ControlPlaneNodes: 2, Arbiter: true, Compact: true})
	arbiter := s.start(s.Arbiter.Node, lab.ServiceOptions{})
	s.awaitPlacement()
	_, err := arbiter.AwaitReason(t.Context(), "NoVIPs")
	must(t, err)
	s.expectNoTableOrListener(s.Arbiter.Node)
	healthy := func() {
		s.expectStates()
		s.expectCertificates()
		s.expectRouterAnswers()
		s.expectFindings("arbiter keepalived-no-api-instance")
	}
	healthy()
	must(t, s.ControlPlane[0].StopKeepalived(t.Context()))
	s.awaitPlacement()
	healthy()
	s.expectNoTableOrListener(s.Arbiter.Node)
}

// writeTestFile writes a file of a lab.
func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

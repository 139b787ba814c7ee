// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestState compares each state on a node in that state.
func TestState(t *testing.T) {
	l, _ := cluster(t)
	tests := []struct {
		name    string
		node    *Node
		config  string
		prepare func(t *testing.T, n *Node)
		status  string
		reason  string
		message string // part of the message
		table   bool
	}{
		{
			name: "a host that holds the VIPs", node: l.ControlPlane[0].Node,
			status: "True", reason: "Serving", message: l.API.V4.String(), table: true,
		},
		{
			name: "another host holds the VIPs", node: l.ControlPlane[1].Node,
			status: "True", reason: "Standby", table: true,
		},
		{
			name: "no keepalived.conf and no VIPs given", node: l.Pods[0],
			status: "True", reason: "NotRequired",
		},
		{
			name: "keepalived's static pod without keepalived.conf", node: l.Pods[0],
			prepare: func(t *testing.T, n *Node) {
				t.Helper()
				writeTestFile(t, filepath.Join(n.Manifests(), "keepalived.yaml"), "kind: Pod\n")
			},
			status: "False", reason: "NoVIPs", message: "although keepalived's static pod does",
		},
		{
			name: "API and ingress share an address", node: l.Worker.Node, config: configWithVIPs(l.Ingress, l.Ingress),
			status: "True", reason: "NotRequired",
		},
		{
			name: "keepalived.conf without an API instance", node: l.Worker.Node,
			status: "False", reason: "NoVIPs", message: "keepalived.conf",
		},
		{
			name: "user-managed load balancer", node: l.Pods[0],
			prepare: func(t *testing.T, n *Node) {
				t.Helper()
				writeTestFile(t, filepath.Join(n.DisabledManifests(), "keepalived.yaml"), "kind: Pod\n")
			},
			status: "False", reason: "ExternalLoadBalancer", message: "80",
		},
		{
			name: "disabled", node: l.ControlPlane[0].Node, config: l.ControlPlane[0].DefaultConfig() + "mode: \"\"\n",
			status: "False", reason: "Disabled",
		},
		{
			name: "nobody listens at the ingress", node: l.ControlPlane[0].Node,
			config: l.ControlPlane[0].DefaultConfig() + "upstream: {port: 81}\n",
			status: "False", reason: "UpstreamUnreachable", message: l.Ingress.V4.String() + ":81", table: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must(t, os.RemoveAll(tt.node.serviceFile("")))
			if tt.prepare != nil {
				tt.prepare(t, tt.node)
			}
			s := start(t, tt.node, ServiceOptions{Config: tt.config})
			seen := awaitReason(t, s, tt.reason)
			c := seen.Condition()
			if c.Type != "HTTP01ChallengeProxyReady" || c.Status != tt.status || !strings.Contains(c.Message, tt.message) ||
				c.LastTransitionTime.IsZero() {
				t.Errorf("condition: %+v", c)
			}
			report, err := s.StatusJSON(t.Context())
			must(t, err)
			isKubernetesCondition(t, report)
			if seen.Table.Present != tt.table {
				t.Errorf("table: %+v", seen.Table)
			}
			present, err := tt.node.HasServiceTable(t.Context())
			must(t, err)
			if present != tt.table {
				t.Errorf("table in nft: %t", present)
			}
			text, err := s.StatusText(t.Context())
			must(t, err)
			if !strings.Contains(text, tt.reason) {
				t.Errorf("no %s in the text status:\n%s", tt.reason, text)
			}
			must(t, Eventually(t.Context(), "STATUS= of the state", statusBegins(s, tt.reason)))
		})
	}
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestWithoutCapability holds that a service without CAP_NET_ADMIN reports it and stays up.
func TestWithoutCapability(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	s := start(t, master, ServiceOptions{
		Wrap: []string{"setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"},
	})
	seen := awaitReason(t, s, "NftablesUnavailable")
	if seen.Condition().Status != "False" || !strings.Contains(seen.Condition().Message, "CAP_NET_ADMIN") {
		t.Errorf("condition: %+v", seen.Condition())
	}
	for _, vip := range l.API.Both() {
		awaitRefused(t, l.Internet.Node, web(vip))
	}
}

// statusBegins checks that the last STATUS= of sd_notify begins with a reason.
func statusBegins(s *Service, reason string) func(context.Context) error {
	return func(context.Context) error {
		if text := s.Notifications.Status(); !strings.HasPrefix(text, reason) {
			return fmt.Errorf("STATUS is %q", text)
		}
		return nil
	}
}

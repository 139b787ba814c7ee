// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRenderedFromObjects runs the service with a configuration rendered from the cluster's
// objects, without keepalived.conf.
func TestRenderedFromObjects(t *testing.T) {
	l, _ := cluster(t)
	program, err := BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	for _, tt := range []struct {
		name   string
		field  string
		api    Pair
		node   *Node
		reason string
		port   int // port of the table; 0 for no table
	}{
		{"absent", "", l.API, l.ControlPlane[0].Node, "Disabled", 0},
		{"disabled", `{mode: ""}`, l.API, l.ControlPlane[0].Node, "Disabled", 0},
		{"default", "{mode: DefaultDeployment}", l.API, l.ControlPlane[0].Node, "Serving", 8888},
		{
			"custom", "{mode: CustomDeployment, customDeployment: {internalPort: 9888}}", l.API, l.ControlPlane[0].Node,
			"Serving", 9888,
		},
		{"one address for both", "{mode: DefaultDeployment}", l.Ingress, l.Worker.Node, "NotRequired", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.node, ServiceOptions{Config: renderObjects(t, program, tt.field, tt.api, l.Ingress)})
			seen := awaitReason(t, s, tt.reason)
			if seen.Table.Port != tt.port || seen.Table.Present != (tt.port != 0) {
				t.Errorf("the table is %+v", seen.Table)
			}
			if tt.port == 0 {
				return
			}
			orderCertificate(t, l, publishName(t, l, "objects-"+tt.name, l.API), l.Pods[2])
		})
	}
}

// renderObjects returns the hosts' configuration.
func renderObjects(t *testing.T, program, field string, api, ingress Pair) string {
	t.Helper()
	dir := t.TempDir()
	if field != "" {
		field = "    http01ChallengeProxy: " + field + "\n"
	}
	writeTestFile(t, filepath.Join(dir, "cluster.yaml"), fmt.Sprintf(`apiVersion: v1
kind: List
items:
- apiVersion: config.openshift.io/v1
  kind: APIServer
  metadata: {name: cluster}
  spec:
    audit: {profile: Default}
%s- apiVersion: config.openshift.io/v1
  kind: Infrastructure
  metadata: {name: cluster}
  status:
    platformStatus:
      type: BareMetal
      baremetal: {apiServerInternalIPs: [%q, %q], ingressIPs: [%q, %q]}
`, field, api.V4, api.V6, ingress.V4, ingress.V6))
	cmd := exec.CommandContext(t.Context(), program, "render", "--layered", "--allow-disabled", "--apiserver",
		"cluster.yaml", "--output-dir", "rendered")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := RenderedConfig(filepath.Join(dir, "rendered"))
	must(t, err)
	return string(text)
}

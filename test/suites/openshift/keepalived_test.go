// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// update writes the fixtures: go test ./suites/openshift -run 'TestKeepalived|TestStaticPod' -update
var update = flag.Bool("update", false, "write the fixtures of the parsers instead of comparing them")

// Files of the platforms with keepalived. The templates are rendered on the node.
const (
	keepalivedTemplate = "/etc/kubernetes/static-pod-resources/keepalived/keepalived.conf.tmpl"
	haproxyTemplate    = "/etc/kubernetes/static-pod-resources/haproxy/haproxy.cfg.tmpl"
	manifest           = "/etc/kubernetes/manifests/keepalived.yaml"
	disabledManifest   = "/etc/kubernetes/disabled-manifests/keepalived.yaml"
)

// node is the data of the templates on a node (openshift/baremetal-runtimecfg,
// pkg/config/node.go). The IDs of the virtual routers follow from the cluster's name.
type node struct {
	Cluster struct {
		Name, APIVIP, IngressVIP                               string
		VIPNetmask, APIVirtualRouterID, IngressVirtualRouterID int
	}
	LBConfig struct {
		ApiPort, LbPort, StatPort int //nolint:revive // the template's names
		Backends                  []backend
	}
	IngressConfig               struct{ Peers []string }
	NonVirtualIP, VRRPInterface string
	EnableUnicast               bool
	Configs                     []node // one for each pair of VIPs
}

// backend is an API server behind HAProxy.
type backend struct {
	Host, Address string
	Port          int
}

// onNode returns the data of the first control-plane node.
func onNode(v vips, unicast bool) (n node) {
	for i, api := range v.api {
		one := node{NonVirtualIP: "192.168.111.20", VRRPInterface: "br-ex", EnableUnicast: unicast}
		one.Cluster.Name, one.Cluster.APIVIP, one.Cluster.IngressVIP = "ostest", api, v.ingress[i]
		one.Cluster.VIPNetmask, one.Cluster.APIVirtualRouterID, one.Cluster.IngressVirtualRouterID = 32, 47, 194
		peer := "192.168.111.2%d"
		if i == 1 || strings.Contains(api, ":") {
			one.NonVirtualIP, one.Cluster.VIPNetmask, peer = "fd2e:6f44:5dd8:c956::14", 128, "fd2e:6f44:5dd8:c956::1%d"
		}
		first := int(one.NonVirtualIP[len(one.NonVirtualIP)-1] - '0')
		for master := range 3 {
			address := fmt.Sprintf(peer, first+master)
			one.IngressConfig.Peers = append(one.IngressConfig.Peers, address)
			one.LBConfig.Backends = append(one.LBConfig.Backends, backend{fmt.Sprintf("master-%d", master), address, 6443})
		}
		one.LBConfig.ApiPort, one.LBConfig.LbPort, one.LBConfig.StatPort = 6443, 9445, 29445
		n.Configs = append(n.Configs, one)
	}
	configs := n.Configs
	n = configs[0]
	n.Configs = configs
	return n
}

// comment is a comment of a template, whose text is no part of the fixtures.
var comment = regexp.MustCompile(`(?m)^( *)#.*$`)

// onHost renders a template as runtimecfg does on the node (pkg/render/render.go).
func onHost(t *testing.T, text string, n node) string {
	t.Helper()
	var out strings.Builder
	must(t, must1(template.New("file").Parse(text))(t).Execute(&out, n))
	return comment.ReplaceAllString(out.String(), "$1# A comment of the template stands here.")
}

// compareFixture compares a text with a fixture of a package, or writes it.
func compareFixture(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join(repository, filepath.FromSlash(name))
	if *update {
		must(t, os.WriteFile(name, []byte(got), 0o644))
	}
	if diff := cmp.Diff(string(must1(os.ReadFile(name))(t)), got); diff != "" {
		t.Errorf("%s (-fixture +OpenShift):\n%s", name, diff)
	}
}

// TestKeepalived: the fixtures of pkg/host/keepalived are what OpenShift's templates give, on each
// platform.
func TestKeepalived(t *testing.T) {
	t.Parallel()
	missing := dualVIPs
	missing.api, missing.ingress = []string{v4VIPs.api[0], ""}, []string{v4VIPs.ingress[0], ""}
	eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
		t.Helper()
		for _, kind := range onPrem() {
			templates := map[mcfgv1.IPFamiliesType]string{}
			for _, v := range []vips{v4VIPs, v6VIPs, dualVIPs} {
				templates[v.families] = contents(t, ask(t, o, platform{kind: kind, vips: v}), keepalivedTemplate)
			}
			for name, tt := range map[string]struct {
				vips    vips
				unicast bool
			}{
				"openshift-ipv4":         {v4VIPs, false},
				"openshift-ipv4-unicast": {v4VIPs, true},
				"openshift-ipv6-unicast": {v6VIPs, true},
				"openshift-dual-unicast": {dualVIPs, true},
				// A node whose second pair is unknown renders an instance without an address.
				"alone/openshift-missing-pair": {missing, true},
			} {
				if kind == configv1.OpenStackPlatformType && tt.vips.families == mcfgv1.IPFamiliesDualStack {
					if name != "openshift-dual-unicast" {
						continue // the sync groups of a dual-stack cluster have one fixture
					}
					name, tt.unicast = "openshift-openstack-dual", false
				}
				t.Run(string(kind)+" "+name, func(t *testing.T) {
					text := onHost(t, templates[tt.vips.families], onNode(tt.vips, tt.unicast))
					compareFixture(t, "pkg/host/keepalived/testdata/"+name+".conf", text)
				})
			}
		}
	})
}

// staticPod is the part of keepalived's static pod that pkg/host/staticpod reads.
type staticPod struct {
	Spec struct {
		InitContainers []struct {
			Command []string
		}
	}
}

// TestStaticPod: the fixture of pkg/host/staticpod is keepalived's static pod on bare metal. On the
// other platforms and in 4.19 it has the same arguments. With a load balancer of the user, it is in
// the folder of disabled manifests.
func TestStaticPod(t *testing.T) {
	t.Parallel()
	const fixture = "pkg/host/staticpod/testdata/openshift-dual.yaml"
	eachRelease(t, func(t *testing.T, release oracle.Release, o *oracle.Operator) {
		t.Helper()
		for _, kind := range onPrem() {
			p := platform{kind: kind, vips: dualVIPs}
			active := ask(t, o, p)
			p.loadBalancer = string(configv1.LoadBalancerTypeUserManaged)
			disabled := ask(t, o, p)
			text := contents(t, active, manifest)
			for what, got := range map[string]string{
				"active, disabled":   contents(t, active, disabledManifest),
				"user-managed":       contents(t, disabled, manifest),
				"the text of a pair": strings.TrimPrefix(contents(t, disabled, disabledManifest), text),
			} {
				if got != "" {
					t.Errorf("%s: %s: %.200s", kind, what, got)
				}
			}
			if release == oracle.OpenShift420 && kind == configv1.BareMetalPlatformType {
				compareFixture(t, fixture, comment.ReplaceAllString(text, "$1# A comment of the template stands here."))
				continue
			}
			var want, got staticPod
			must(t, yaml.Unmarshal(must1(os.ReadFile(filepath.Join(repository, fixture)))(t), &want))
			must(t, yaml.Unmarshal([]byte(text), &got))
			if diff := cmp.Diff(want, got); diff != "" || len(got.Spec.InitContainers) == 0 {
				t.Errorf("%s (-fixture +OpenShift):\n%s", kind, diff)
			}
		}
	})
}

// listening is a line of haproxy.cfg that names a port.
var listening = regexp.MustCompile(`(?m)^\s*bind \S*:(\d+)`)

// TestHAProxyPorts: HAProxy of the API, which runs on the same hosts, listens on none of our ports.
func TestHAProxyPorts(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
		t.Helper()
		for _, kind := range onPrem() {
			text := contents(t, ask(t, o, platform{kind: kind, vips: v4VIPs}), haproxyTemplate)
			ports := listening.FindAllStringSubmatch(onHost(t, text, onNode(v4VIPs, true)), -1)
			if len(ports) < 4 {
				t.Fatalf("%s: only %d ports in\n%s", kind, len(ports), text)
			}
			for _, port := range ports {
				if slices.Contains([]string{"80", "8888", "9645"}, port[1]) {
					t.Errorf("%s: HAProxy listens on port %s", kind, port[1])
				}
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	namespace = "http01-proxyd"
	port      = 9645
)

// TestObjects validates the objects of `oc apply -f machineconfigs/monitoring/`, one per
// file.
func TestObjects(t *testing.T) {
	j, err := validator.Load(t.Context())
	must(t, err)
	files, err := filepath.Glob(filepath.Join(manifests, "*"))
	must(t, err)
	seen := map[string]int{}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, ".json") {
			continue // oc ignores other files
		}
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			text := shippedFile(t, name)
			documents, err := validator.Documents(text)
			must(t, err)
			if len(documents) != 1 {
				t.Fatalf("%d objects, want one per file", len(documents))
			}
			var head struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			must(t, yaml.Unmarshal(text, &head))
			seen[head.Kind]++
			if head.Kind != "Namespace" && head.Kind != "ConfigMap" && head.Metadata.Namespace != namespace {
				t.Errorf("%s is in namespace %q", head.Kind, head.Metadata.Namespace)
			}
			switch head.Kind {
			case "Namespace":
				var o corev1.Namespace
				decodeStrict(t, text, &o)
				if o.Labels["openshift.io/cluster-monitoring"] != "true" || o.Name != namespace {
					t.Errorf("the platform's Prometheus ignores %s with labels %v", o.Name, o.Labels)
				}
			case "ConfigMap":
				decodeStrict(t, text, &corev1.ConfigMap{})
			case "Role":
				decodeStrict(t, text, &rbacv1.Role{})
			case "RoleBinding":
				decodeStrict(t, text, &rbacv1.RoleBinding{})
			case "Service":
				decodeStrict(t, text, &corev1.Service{})
			default:
				must(t, j.Object(text))
			}
		})
	}
	want := map[string]int{
		"Namespace": 1, "ConfigMap": 1, "Role": 1, "RoleBinding": 1, "Service": 1, "PrometheusRule": 1,
		"ServiceMonitor": 1,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// endpoints runs the template as `oc get nodes -o go-template-file=` does.
func endpoints(t *testing.T, nodes corev1.NodeList) corev1.Endpoints { //nolint:staticcheck // every release's Prometheus reads Endpoints
	t.Helper()
	text, err := json.Marshal(nodes)
	must(t, err)
	var list any
	must(t, json.Unmarshal(text, &list))
	program, err := template.New("masters").Parse(string(shippedFile(t, "masters.gotmpl")))
	must(t, err)
	var out bytes.Buffer
	must(t, program.Execute(&out, list))
	var o corev1.Endpoints //nolint:staticcheck // as above
	decodeStrict(t, out.Bytes(), &o)
	return o
}

func node(name string, addresses ...string) corev1.Node {
	var n corev1.Node
	n.Name = name
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// TestControlPlaneEndpoints holds that the template lists each control-plane node once with
// its first address and its node name, which becomes the name of the target.
func TestControlPlaneEndpoints(t *testing.T) {
	o := endpoints(t, corev1.NodeList{Items: []corev1.Node{
		node("master0", "192.0.2.11", "2001:db8::11"), node("master1", "2001:db8::12"), node("master2", "192.0.2.13"),
	}})
	var got []string
	for _, s := range o.Subsets {
		for _, a := range s.Addresses {
			if a.NodeName == nil || a.TargetRef == nil || a.TargetRef.Kind != "Node" || a.TargetRef.Name != *a.NodeName {
				t.Fatalf("address %+v", a)
			}
			got = append(got, *a.NodeName+" "+a.IP)
		}
	}
	if diff := cmp.Diff([]string{"master0 192.0.2.11", "master1 2001:db8::12", "master2 192.0.2.13"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// TestPortsMatch holds that Service, Endpoints and ServiceMonitor have the same port and
// port name, and that the documents have this port.
func TestPortsMatch(t *testing.T) {
	var service corev1.Service
	decodeStrict(t, shippedFile(t, "service.yaml"), &service)
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct{ Port string }
		}
	}
	must(t, yaml.Unmarshal(shippedFile(t, "servicemonitor.yaml"), &monitor))
	behind := endpoints(t, corev1.NodeList{Items: []corev1.Node{node("master0", "192.0.2.11")}})
	if len(service.Spec.Selector) != 0 {
		t.Errorf("the Service selects pods: %v", service.Spec.Selector)
	}
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, the Service has %v", key, value, service.Labels)
		}
	}
	if behind.Name != service.Name || behind.Namespace != service.Namespace {
		t.Errorf("Endpoints %s/%s are not those of Service %s/%s", behind.Namespace, behind.Name, service.Namespace,
			service.Name)
	}
	s, e := service.Spec.Ports[0], behind.Subsets[0].Ports[0]
	if s.Port != port || s.TargetPort.IntVal != port || e.Port != port || s.Name != e.Name ||
		s.Name != monitor.Spec.Endpoints[0].Port {
		t.Errorf("ports: Service %+v, Endpoints %+v, ServiceMonitor %+v", s, e, monitor.Spec.Endpoints[0])
	}
	for file, phrase := range map[string]string{
		"docs/monitoring.md":      `listenAddress: ":9645"`,
		"docs/reference/ports.md": "|9645|",
	} {
		text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(file)))
		must(t, err)
		if !strings.Contains(string(text), phrase) {
			t.Errorf("%s does not have %s", file, phrase)
		}
	}
}

// TestSnippets holds that the snippets for the monitoring stack's configuration are YAML in
// a ConfigMap, with the shipped units and our namespace.
func TestSnippets(t *testing.T) {
	var c corev1.ConfigMap
	decodeStrict(t, shippedFile(t, "config/cluster-monitoring-config.yaml"), &c)
	var platform struct {
		NodeExporter struct {
			Collectors struct {
				Systemd struct {
					Enabled bool     `json:"enabled"`
					Units   []string `json:"units"`
				} `json:"systemd"`
			} `json:"collectors"`
		} `json:"nodeExporter"`
	}
	decodeStrict(t, []byte(c.Data["config.yaml"]), &platform)
	systemd := platform.NodeExporter.Collectors.Systemd
	if c.Name != "cluster-monitoring-config" || c.Namespace != "openshift-monitoring" || !systemd.Enabled ||
		len(systemd.Units) == 0 {
		t.Errorf("%s/%s: %+v", c.Namespace, c.Name, platform)
	}
	for _, unit := range systemd.Units {
		if _, err := os.Stat(filepath.Join(repository, "systemd", unit)); err != nil {
			t.Errorf("unit %s does not exist: %v", unit, err)
		}
	}
	c = corev1.ConfigMap{}
	decodeStrict(t, shippedFile(t, "config/user-workload-monitoring-config.yaml"), &c)
	var user struct {
		Namespaces []string `json:"namespacesWithoutLabelEnforcement"`
	}
	decodeStrict(t, []byte(c.Data["config.yaml"]), &user)
	if diff := cmp.Diff([]string{namespace}, user.Namespaces); diff != "" || c.Name != "user-workload-monitoring-config" {
		t.Errorf("%s: %s", c.Name, diff)
	}
}

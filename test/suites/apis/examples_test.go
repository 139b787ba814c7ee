// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"encoding/csv"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// certManager has the fields of cert-manager-operator's CertManager for network policies
// (openshift/cert-manager-operator 454cb88, api/operator/v1alpha1/certmanager_types.go).
type certManager struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		NetworkPolicies []struct {
			Name          string                                 `json:"name"`
			ComponentName string                                 `json:"componentName"`
			Egress        []networkingv1.NetworkPolicyEgressRule `json:"egress"`
		} `json:"networkPolicies"`
	} `json:"spec"`
}

// TestNetworkPolicyExample holds that the example of self-check-missing has only known
// fields. It permits port 80 of addresses, and port 443 everywhere, because a CA has no fixed
// address.
func TestNetworkPolicyExample(t *testing.T) {
	t.Parallel()
	var o certManager
	must(t, yaml.UnmarshalStrict([]byte(example(t, "troubleshooting.md", "yaml object")), &o))
	if o.APIVersion != "operator.openshift.io/v1alpha1" || o.Kind != "CertManager" || o.Name != "cluster" {
		t.Errorf("object %s %s %s", o.APIVersion, o.Kind, o.Name)
	}
	var names []string
	permitted := make(map[int32]int) // by port: the number of address blocks
	for _, p := range o.Spec.NetworkPolicies {
		names = append(names, p.Name)
		if p.ComponentName != "CoreController" {
			t.Errorf("%s: component %q, but the API accepts CoreController only", p.Name, p.ComponentName)
		}
		for _, rule := range p.Egress {
			for _, port := range rule.Ports {
				if port.Protocol == nil || *port.Protocol != "TCP" || port.Port == nil {
					t.Errorf("%s: port %+v", p.Name, port)
					continue
				}
				blocks := slices.DeleteFunc(slices.Clone(rule.To), func(to networkingv1.NetworkPolicyPeer) bool { return to.IPBlock == nil })
				permitted[port.Port.IntVal] = len(blocks)
			}
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 2 || len(permitted) != 2 || permitted[80] != 2 || permitted[443] != 0 {
		t.Errorf("entries %q, address blocks by port: %v", names, permitted)
	}
}

// ingressNodeFirewall has the fields of an IngressNodeFirewall for TCP
// (openshift/ingress-node-firewall, api/v1alpha1/ingressnodefirewall_types.go).
type ingressNodeFirewall struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Interfaces   []string             `json:"interfaces"`
		NodeSelector metav1.LabelSelector `json:"nodeSelector"`
		Ingress      []struct {
			SourceCIDRs []string `json:"sourceCIDRs"`
			Rules       []struct {
				Order          uint32 `json:"order"`
				ProtocolConfig struct {
					Protocol string `json:"protocol"`
					TCP      struct {
						Ports intstr.IntOrString `json:"ports"`
					} `json:"tcp"`
				} `json:"protocolConfig"`
				Action string `json:"action"`
			} `json:"rules"`
		} `json:"ingress"`
	} `json:"spec"`
}

// example returns the only block of a document with a mark.
func example(t *testing.T, document, mark string) string {
	t.Helper()
	text := must1(os.ReadFile(root + "/docs/" + document))(t)
	blocks := regexp.MustCompile("(?s)```"+mark+"\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/%s has %d blocks %s", document, len(blocks), mark)
	}
	return string(blocks[0][1])
}

// TestIngressNodeFirewallExample holds that the example accepts port 80 of all clients.
func TestIngressNodeFirewallExample(t *testing.T) {
	t.Parallel()
	var o ingressNodeFirewall
	must(t, yaml.UnmarshalStrict([]byte(example(t, "topologies.md", "yaml IngressNodeFirewall")), &o))
	if o.APIVersion != "ingressnodefirewall.openshift.io/v1alpha1" || o.Kind != "IngressNodeFirewall" || len(o.Spec.Ingress) != 1 || len(o.Spec.Ingress[0].Rules) != 1 {
		t.Fatalf("%+v", o)
	}
	in := o.Spec.Ingress[0]
	rule := in.Rules[0]
	if diff := cmp.Diff([]string{"0.0.0.0/0", "::/0"}, in.SourceCIDRs); diff != "" || rule.Action != "Allow" || rule.ProtocolConfig.Protocol != "TCP" || rule.ProtocolConfig.TCP.Ports.IntValue() != 80 {
		t.Errorf("%+v %s", in, diff)
	}
}

// TestCustomEntries holds that the entries for oc commatrix are those of the remediation, for
// the usual ports.
func TestCustomEntries(t *testing.T) {
	t.Parallel()
	const entry = "ingress,TCP,{port},,http01-proxyd,,,master,false"
	findings := string(must1(os.ReadFile(root + "/docs/troubleshooting.md"))(t))
	if n := strings.Count(strings.Join(strings.Fields(findings), " "), "the custom entry "+entry+". "); n != 2 { // packet-dropped and reply-dropped
		t.Errorf("%d findings have the entry", n)
	}
	want := "Direction,Protocol,Port,Namespace,Service,Pod,Container,NodeGroup,Optional\n" +
		strings.ReplaceAll(entry, "{port}", "8888") + "\n" + strings.ReplaceAll(entry, "{port}", "9645") + "\n"
	got := example(t, "topologies.md", "csv")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The generator rejects rows of another length.
	must1(csv.NewReader(strings.NewReader(got)).ReadAll())(t)
}

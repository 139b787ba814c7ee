// SPDX-License-Identifier: Apache-2.0

package routeagent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	served := map[route]netip.AddrPort{{"ns", "api.lab.test", "/token", "solver"}: netip.MustParseAddrPort("192.0.2.21:20000")}
	none := map[route]netip.AddrPort{}
	tests := map[string]struct {
		change func(*objects)
		want   map[route]netip.AddrPort
	}{
		"solver": {func(*objects) {}, served},
		"class of the annotation": {func(o *objects) {
			o.ingresses[0].Spec.IngressClassName = nil
			o.ingresses[0].Annotations = map[string]string{"kubernetes.io/ingress.class": "openshift-default"}
		}, served},
		"no class": {func(o *objects) { o.ingresses[0].Spec.IngressClassName = nil }, served},
		"missing class": {func(o *objects) {
			o.ingresses[0].Spec.IngressClassName = new("nginx")
		}, none},
		"class of another controller": {func(o *objects) { o.classes[0].Spec.Controller = "k8s.io/ingress-nginx" }, none},
		"type Exact":                  {func(o *objects) { o.path().PathType = new(networkingv1.PathTypeExact) }, none},
		"no host":                     {func(o *objects) { o.ingresses[0].Spec.Rules[0].Host = "" }, none},
		"wildcard host":               {func(o *objects) { o.ingresses[0].Spec.Rules[0].Host = "*.lab.test" }, none},
		"no HTTP":                     {func(o *objects) { o.ingresses[0].Spec.Rules[0].HTTP = nil }, none},
		"no service":                  {func(o *objects) { o.path().Backend.Service = nil }, none},
		"solver not ready": {func(o *objects) { o.slices[0].Endpoints[0].Conditions.Ready = new(false) }, map[route]netip.AddrPort{
			{"ns", "api.lab.test", "/token", "solver"}: {},
		}},
		"endpoints in another namespace": {func(o *objects) { o.slices[0].Namespace = "other" }, map[route]netip.AddrPort{
			{"ns", "api.lab.test", "/token", "solver"}: {},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := solverObjects()
			tt.change(&o)
			if diff := cmp.Diff(tt.want, o.routes(), cmp.AllowUnexported(route{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	ingress := func(name string, age time.Duration, delay string) *networkingv1.Ingress {
		one := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		if delay != "" {
			one.Annotations = map[string]string{DelayAnnotation: delay}
		}
		return one
	}
	ready, next := due([]*networkingv1.Ingress{
		ingress("without", 0, ""), ingress("passed", 41*time.Second, "40s"), ingress("first", 30*time.Second, "40s"), ingress("later", 0, "40s"),
	}, now)
	var names []string
	for _, one := range ready {
		names = append(names, one.Name)
	}
	if diff := cmp.Diff([]string{"without", "passed"}, names); diff != "" || next != 10*time.Second {
		t.Errorf("next in %v, ready (-want +got):\n%s", next, diff)
	}
}

func (o *objects) path() *networkingv1.HTTPIngressPath {
	return &o.ingresses[0].Spec.Rules[0].HTTP.Paths[0]
}

// solverObjects returns the objects of one solver as cert-manager creates them with
// ACMEHTTP01IngressPathTypeExact=false.
func solverObjects() objects {
	return objects{
		classes: []*networkingv1.IngressClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "openshift-default"},
			Spec:       networkingv1.IngressClassSpec{Controller: controllerName},
		}},
		ingresses: []*networkingv1.Ingress{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ingress"},
			Spec: networkingv1.IngressSpec{IngressClassName: new("openshift-default"), Rules: []networkingv1.IngressRule{{
				Host: "api.lab.test",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/token", PathType: new(networkingv1.PathTypeImplementationSpecific),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "solver", Port: networkingv1.ServiceBackendPort{Number: 8089}}},
				}}}},
			}}},
		}},
		slices: []*discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "solver", Labels: map[string]string{discoveryv1.LabelServiceName: "solver"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.21"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
			Ports:      []discoveryv1.EndpointPort{{Port: new(int32(20000))}},
		}},
	}
}

// SPDX-License-Identifier: Apache-2.0

package routeagent

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// solver returns the objects of one challenge, with an endpoint that is ready.
func solver() objects {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "solver", UID: "1"}
	class := "openshift-default"
	backend := networkingv1.IngressServiceBackend{Name: "solver", Port: networkingv1.ServiceBackendPort{Number: 8089}}
	slice := meta
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "solver"}
	return objects{
		classes: []*networkingv1.IngressClass{
			{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: networkingv1.IngressClassSpec{Controller: controllerName}},
			{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: "k8s.io/nginx"}},
		},
		ingresses: []*networkingv1.Ingress{{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: &class,
			Rules: []networkingv1.IngressRule{{
				Host: "api.example.com",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path: "/a", PathType: new(networkingv1.PathTypeImplementationSpecific),
						Backend: networkingv1.IngressBackend{Service: &backend},
					}},
				}},
			}},
		}}},
		services: []*corev1.Service{{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: "metrics", Port: 9402}, {Name: "http", Port: 8089}},
		}}},
		slices: []*discoveryv1.EndpointSlice{{
			ObjectMeta: slice,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("metrics"), Port: new(int32(20001))}, {Name: new("http"), Port: new(int32(20000))},
			},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			}},
		}},
	}
}

// TestRoutes: the routes and endpoints of an Ingress follow route-controller-manager and the
// router. Each case changes the objects of a challenge after the first conversion.
func TestRoutes(t *testing.T) {
	t.Parallel()
	const served, unserved = "192.0.2.1:20000", "invalid AddrPort"
	for name, tt := range map[string]struct {
		change func(*objects)
		fresh  string // endpoint of the route in a new conversion; empty without a route
		later  string // ... after the first conversion
	}{
		"unchanged":         {func(*objects) {}, served, served},
		"another class":     {func(o *objects) { *o.ingresses[0].Spec.IngressClassName = "nginx" }, "", served},
		"the class is gone": {func(o *objects) { o.classes = nil }, "", served},
		"no class":          {func(o *objects) { o.ingresses[0].Spec.IngressClassName = nil }, served, served},
		"another Ingress of the name": {func(o *objects) {
			o.ingresses[0].UID, *o.ingresses[0].Spec.IngressClassName = "2", "nginx"
		}, "", ""},
		"no Ingress":   {func(o *objects) { o.ingresses = nil }, "", ""},
		"no Service":   {func(o *objects) { o.services = nil }, "", ""},
		"another port": {func(o *objects) { o.services[0].Spec.Ports[1].Port = 80 }, "", ""},
		"port by name": {func(o *objects) {
			o.ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port = networkingv1.ServiceBackendPort{Name: "http"}
		}, served, served},
		"unknown state": {func(o *objects) { o.slices[0].Endpoints[0].Conditions.Ready = nil }, served, served},
		"not ready":     {func(o *objects) { *o.slices[0].Endpoints[0].Conditions.Ready = false }, unserved, unserved},
		"no slice":      {func(o *objects) { o.slices = nil }, unserved, unserved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := solver().routes(nil)
			changed := solver()
			tt.change(&changed)
			for _, one := range []struct {
				want string
				all  map[route]netip.AddrPort
			}{{tt.fresh, changed.routes(nil)}, {tt.later, changed.routes(known)}} {
				var got string
				if endpoints := slices.Collect(maps.Values(one.all)); len(endpoints) > 0 {
					got = endpoints[0].String()
				}
				if got != one.want || len(one.all) > 1 {
					t.Errorf("routes %v, want %q", one.all, one.want)
				}
			}
		})
	}
}

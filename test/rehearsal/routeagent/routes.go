// SPDX-License-Identifier: Apache-2.0

package routeagent

import (
	"net/netip"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// controllerName is the controller of OpenShift's IngressClass
// (openshift/api, route/v1, IngressToRouteIngressClassControllerName).
const controllerName = "openshift.io/ingress-to-route"

// DelayAnnotation on an Ingress is the time from its creation until it gets its routes, as
// in a cluster with slow controllers.
const DelayAnnotation = "routeagent.rehearsal/delay"

// due returns the Ingresses whose delay has passed, and the time until the next one.
func due(all []*networkingv1.Ingress, now time.Time) (ready []*networkingv1.Ingress, next time.Duration) {
	for _, ingress := range all {
		// Without the annotation the delay is 0.
		delay, _ := time.ParseDuration(ingress.Annotations[DelayAnnotation])
		switch rest := ingress.CreationTimestamp.Add(delay).Sub(now); {
		case delay == 0 || rest <= 0:
			ready = append(ready, ingress)
		case next == 0 || rest < next:
			next = rest
		}
	}
	return ready, next
}

// route is a host and a path that the router serves.
type route struct{ namespace, host, path, service string }

// objects are the objects that the routes follow from.
type objects struct {
	classes   []*networkingv1.IngressClass
	ingresses []*networkingv1.Ingress
	slices    []*discoveryv1.EndpointSlice
}

// routes returns each route with its endpoint, or with the zero value if it has none.
func (o objects) routes() map[route]netip.AddrPort {
	all := map[route]netip.AddrPort{}
	for _, ingress := range o.ingresses {
		if !o.managed(ingress) {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			if rule.HTTP == nil || rule.Host == "" || strings.HasPrefix(rule.Host, "*.") {
				continue
			}
			for _, path := range rule.HTTP.Paths {
				if path.Backend.Service == nil || path.PathType != nil && *path.PathType == networkingv1.PathTypeExact {
					continue
				}
				r := route{ingress.Namespace, rule.Host, path.Path, path.Backend.Service.Name}
				all[r] = o.endpoint(r)
			}
		}
	}
	return all
}

// managed reports whether the class of an Ingress is one of the controller. An Ingress
// without a class is managed too.
func (o objects) managed(ingress *networkingv1.Ingress) bool {
	name, is := ingress.Annotations["kubernetes.io/ingress.class"]
	if !is {
		if ingress.Spec.IngressClassName == nil {
			return true
		}
		name = *ingress.Spec.IngressClassName
	}
	for _, class := range o.classes {
		if class.Name == name {
			return class.Spec.Controller == controllerName
		}
	}
	return false
}

// endpoint returns the first ready endpoint of a route.
func (o objects) endpoint(r route) netip.AddrPort {
	for _, slice := range o.slices {
		if slice.Namespace != r.namespace || slice.Labels[discoveryv1.LabelServiceName] != r.service {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || !*endpoint.Conditions.Ready || len(slice.Ports) == 0 {
				continue
			}
			if address, err := netip.ParseAddr(endpoint.Addresses[0]); err == nil {
				return netip.AddrPortFrom(address, uint16(*slice.Ports[0].Port)) //nolint:gosec // a port
			}
		}
	}
	return netip.AddrPort{}
}

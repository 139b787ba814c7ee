// SPDX-License-Identifier: Apache-2.0

package routeagent

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
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
type route struct {
	owner                          types.UID // of the Ingress
	namespace, host, path, service string
	port                           string // name in the Service; empty for its only port
}

// objects are the objects that the routes follow from.
type objects struct {
	classes   []*networkingv1.IngressClass
	ingresses []*networkingv1.Ingress
	services  []*corev1.Service
	slices    []*discoveryv1.EndpointSlice
}

// routes returns each route with its endpoint, or with the zero value if it has none. known are
// the routes so far: an Ingress keeps them when its class becomes another controller's, and they
// vanish with it.
func (o objects) routes(known map[route]netip.AddrPort) map[route]netip.AddrPort {
	all := map[route]netip.AddrPort{}
	for _, ingress := range o.ingresses {
		routes := o.convert(ingress)
		if !o.managed(ingress) {
			routes = slices.DeleteFunc(slices.Collect(maps.Keys(known)), func(r route) bool { return r.owner != ingress.UID })
		}
		for _, r := range routes {
			all[r] = o.endpoint(r)
		}
	}
	return all
}

// convert returns the routes of an Ingress. A path whose Service or port does not exist gets none.
func (o objects) convert(ingress *networkingv1.Ingress) (routes []route) {
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil || rule.Host == "" || strings.HasPrefix(rule.Host, "*.") {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			backend := path.Backend.Service
			if backend == nil || path.PathType != nil && *path.PathType == networkingv1.PathTypeExact {
				continue
			}
			if port, found := o.port(ingress.Namespace, backend); found {
				routes = append(routes, route{ingress.UID, ingress.Namespace, rule.Host, path.Path, backend.Name, port})
			}
		}
	}
	return routes
}

// port returns the name of a Service's port (targetPortForService).
func (o objects) port(namespace string, backend *networkingv1.IngressServiceBackend) (name string, found bool) {
	for _, service := range o.services {
		if service.Namespace != namespace || service.Name != backend.Name {
			continue
		}
		for _, port := range service.Spec.Ports {
			matches := port.Name == backend.Port.Name
			if backend.Port.Name == "" {
				matches = port.Port == backend.Port.Number
			}
			if matches {
				return port.Name, true
			}
		}
	}
	return "", false
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

// endpoint returns the first ready endpoint of a route. An endpoint whose state is unknown is
// ready (openshift/router, pkg/router/controller/endpointsubset, ConvertEndpointSlice).
func (o objects) endpoint(r route) netip.AddrPort {
	for _, slice := range o.slices {
		if slice.Namespace != r.namespace || slice.Labels[discoveryv1.LabelServiceName] != r.service {
			continue
		}
		i := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && (r.port == "" || p.Name != nil && *p.Name == r.port)
		})
		for _, endpoint := range slice.Endpoints {
			if i < 0 || endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			if address, err := netip.ParseAddr(endpoint.Addresses[0]); err == nil {
				return netip.AddrPortFrom(address, uint16(*slice.Ports[i].Port)) //nolint:gosec // a port
			}
		}
	}
	return netip.AddrPort{}
}

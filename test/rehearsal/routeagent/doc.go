// SPDX-License-Identifier: Apache-2.0

// Package routeagent gives the routers of a lab the routes of Ingresses without TLS. It does the
// work of two parts of OpenShift:
//
//   - the ingress-to-route controller (openshift/route-controller-manager, pkg/route/ingress):
//     an Ingress of another class, a rule without a host, a path of type Exact, and a path whose
//     Service or port does not exist get no route. An Ingress whose class changes keeps its
//     routes. A wildcard host gets none, because the router rejects it by default
//     (routeAdmission.wildcardPolicy),
//   - the router (openshift/router): it reads the EndpointSlices of the Service and reloads
//     HAProxy, at once after a quiet time and otherwise at most once per reload interval (5 s).
//     An endpoint whose state is unknown counts as ready.
//
// It leaves out the Route objects with their status, TLS, wildcards, shards, weights and the
// rule that the oldest route owns a host. It sets routes by HAProxy's runtime API instead of a
// reload. A route without an endpoint is not set, and HAProxy answers 503 with the same page as
// OpenShift's router. [DelayAnnotation] delays the routes of an Ingress.
package routeagent

// SPDX-License-Identifier: Apache-2.0

// Package ingress owns the value that describes how the ingress is reached: its addresses,
// the CAs that verify its routers, and the egress proxies on the route. The controller,
// the proxy, the prober and check link it; the same types are decoded and validated in all.
//
// It chooses no address. reconcile or microshift/decision find the addresses, and proxy/upstream orders
// them for each request by the family of the VIP.
package ingress

// SPDX-License-Identifier: Apache-2.0

// Package ingress owns the value that describes how the ingress is reached: its addresses,
// the CAs that verify its routers, and the egress proxies on the route. The controller,
// the proxy and the prober link it; the same types are decoded and validated in all.
package ingress

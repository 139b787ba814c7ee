// SPDX-License-Identifier: Apache-2.0

// Package egress owns the cluster-wide egress proxy on the host: the requested
// settings, the accepted settings, and the ingress addresses that are reached through
// the proxy. Credentials are stored here and never printed.
package egress

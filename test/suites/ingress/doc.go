// SPDX-License-Identifier: Apache-2.0

// Package ingress tests the upstream route from the proxy to the router end to end: TLS,
// redirects, the PROXY protocol and the egress proxy. Each case ends with a certificate
// from the CA or with the diagnosis of the fault.
package ingress

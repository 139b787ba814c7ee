// SPDX-License-Identifier: Apache-2.0

// Package ingress tests the way from the front door to the router end to end:
// TLS, redirects, the PROXY protocol and the egress proxy, each with a
// certificate from the CA or the diagnosis that names what is wrong.
package ingress

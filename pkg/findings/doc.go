// SPDX-License-Identifier: Apache-2.0

// Package findings contains the text of every known fault between a CA and
// cert-manager's solver: ID, message and remediation. `http01-proxyd check`, the
// journal and docs/troubleshooting use the same texts. All processes link it.
//
// The entries of one check are in one function or a few, such as dnsEntries. The files
// group them by what has the fault: local.go (this host), network.go (VIPs, port 80, names,
// certificates, MTU, clock), upstream.go (ingress, routes, CA bundle), egress.go,
// microshift.go, cluster.go and preflight.go.
package findings

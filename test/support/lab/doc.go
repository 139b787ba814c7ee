// SPDX-License-Identifier: Apache-2.0

// Package lab owns a small bare-metal cluster network of real parts: network namespaces for
// the internet, three control-plane nodes, a worker and pods; keepalived on the nodes;
// HAProxy as OpenShift's router; cert-manager's HTTP-01 solver behind it; Pebble as the CA
// with its DNS server.
//
// Everything is inside network namespaces that the lab creates and removes. It needs root.
// A Lab is safe for concurrent use unless a method documents otherwise.
package lab

// SPDX-License-Identifier: Apache-2.0

// Package lab owns a bare-metal cluster's network in miniature, made of the
// real parts: namespaces for the internet, three masters, a worker and pods;
// keepalived on masters and worker; HAProxy as OpenShift's router; cert-manager's
// own HTTP-01 solver behind it; Pebble as the CA and its DNS server.
//
// Everything happens inside network namespaces that the lab makes and removes.
// Needs root. A Lab is safe for concurrent use unless a method says otherwise.
package lab

// SPDX-License-Identifier: Apache-2.0

// Package topology tests each cluster topology: it gets a certificate there, or the service
// correctly stays idle, and the state is as documented. Each item of docs/topologies.md has a test.
package topology

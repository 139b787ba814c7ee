// SPDX-License-Identifier: Apache-2.0

// Package topology brings up each cluster topology and tests that it gets a certificate
// there, or that the service correctly stays idle, and that the state is as documented.
// Each row of docs/topologies.md has a test.
package topology

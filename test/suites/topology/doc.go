// SPDX-License-Identifier: Apache-2.0

// Package topology brings up each topology of a cluster and shows that it gets
// a certificate there, or that the service rightly does nothing, and what the
// state says of it: a test for each row of docs/topologies.md.
package topology

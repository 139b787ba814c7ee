// SPDX-License-Identifier: Apache-2.0

// Package egress owns the cluster-wide egress proxy as the host is told of it:
// what is asked for, what is accepted, and which ingress addresses are reached
// through it. Credentials are in here and are never printed.
package egress

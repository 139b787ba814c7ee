// SPDX-License-Identifier: Apache-2.0

// Package nodes lists the nodes of a cluster and runs commands on them, with oc. Only
// the administrator's tool links it.
package nodes

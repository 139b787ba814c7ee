// SPDX-License-Identifier: Apache-2.0

// Package egress decides which ingress addresses the proxy reaches through the cluster's egress
// proxy. It reads the node's file, accepts a new setting when its readiness endpoints answered
// through it, and resolves the name of the accepted proxy. The controller links it; a prober process
// queries the network.
package egress

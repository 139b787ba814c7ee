// SPDX-License-Identifier: Apache-2.0

// Package egress evaluates the egress proxies of the cluster and of this service, and
// determines how the proxy reaches the ingress. `http01-proxyd check` links it.
package egress

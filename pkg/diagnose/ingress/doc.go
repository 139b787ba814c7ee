// SPDX-License-Identifier: Apache-2.0

// Package ingress evaluates the responses of the ingress VIPs: whether the routers respond
// at all, and what they respond to challenges. `http01-proxyd check` links it.
package ingress

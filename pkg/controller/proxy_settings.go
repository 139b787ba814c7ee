// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// proxySettings is what a proxy process must know before it serves: an immutable value. See
// pipeline.
type proxySettings struct {
	generation uint64        // grows with each value of the reconcile loop
	config     config.Config // in force, with the ports of the ingress routers
	ingress    []netip.Addr

	cas    *ingress.CABundle // nil: no TLS to the ingress
	egress ingress.Egress
}

// sameProxyConfig reports whether both give the same Configure command.
func sameProxyConfig(a, b proxySettings) bool {
	return slices.Equal(a.ingress, b.ingress) && a.config.Upstream.Equal(b.config.Upstream) && a.egress.Equal(b.egress) &&
		a.config.Limits == b.config.Limits && slices.Equal(a.config.Hosts, b.config.Hosts)
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Settings is what a proxy process must know before it serves: an immutable value.
type Settings struct {
	Generation uint64        // grows with each value of the reconcile loop
	Config     config.Config // the active one, with the ports of the ingress routers
	Ingress    []netip.Addr

	CAs    *ingress.CABundle // nil: no TLS to the ingress
	Egress ingress.Egress
}

// sameProxyConfig reports whether both give the same Configure command.
func sameProxyConfig(a, b Settings) bool {
	return slices.Equal(a.Ingress, b.Ingress) && a.Config.Upstream.Equal(b.Config.Upstream) && a.Egress.Equal(b.Egress) &&
		a.Config.Limits == b.Config.Limits && slices.Equal(a.Config.Hosts, b.Config.Hosts)
}

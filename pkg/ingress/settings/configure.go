// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// Configure is how the ingress at these addresses is asked. What is about clients is
// not in it.
func Configure(u config.Upstream, ingress []netip.Addr) protocol.Configure {
	return protocol.Configure{
		Timeout:         u.Timeout,
		Ingress:         ingress,
		Port:            u.Port,
		ConnectTimeout:  u.ConnectTimeout,
		TLS:             u.Scheme == config.SchemeHTTPS,
		HTTPSPort:       u.HTTPSPort,
		FollowRedirects: u.FollowRedirects,
		ProxyProtocol:   proxyProtocolVersion(u.ProxyProtocol),
		VerifyNames:     u.VerifyNames,
	}
}

func proxyProtocolVersion(p config.ProxyProtocol) int {
	switch p {
	case config.ProxyProtocolV1:
		return 1
	case config.ProxyProtocolV2:
		return 2
	default:
		return 0
	}
}

// Trust is what is trusted for TLS to the ingress. whose names, for diagnoses, where
// the roots come from.
func Trust(whose string, roots []trust.Certificate) *protocol.CABundle {
	return &protocol.CABundle{Roots: trust.DER(roots), Description: trust.Describe(whose, roots)}
}

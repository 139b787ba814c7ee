// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// useLastGoodVIPs uses the VIPs that the service keeps while keepalived.conf is
// unusable. The fault is reported, and the other checks use these VIPs.
func (h *host) useLastGoodVIPs() {
	if _, faulty := h.vipsFault(); !faulty {
		return
	}
	reported, err := h.report()
	if err != nil {
		return
	}
	h.vips, h.lastGoodInForce = lastGoodVIPs(reported, h.vips)
	if h.microShiftState.active && h.lastGoodInForce {
		h.config.Upstream.Port = reported.Upstreams[0].Address.Port()
	}
}

// lastGoodVIPs are the VIPs that a service has in use, or the detected ones if it has
// none.
func lastGoodVIPs(reported report.Report, found keepalived.VIPs) (keepalived.VIPs, bool) {
	switch reported.Condition().Reason {
	case report.Serving, report.Standby, report.UpstreamUnreachable, report.ProxyUnavailable, report.PortInUse, report.NftablesUnavailable, report.InvalidConfig:
	default:
		return found, false
	}
	var v keepalived.VIPs
	for _, vip := range reported.VIPs {
		v.API = append(v.API, vip.Address)
	}
	for _, u := range reported.Upstreams {
		if !slices.Contains(v.Ingress, u.Address.Addr()) {
			v.Ingress = append(v.Ingress, u.Address.Addr())
		}
	}
	if len(v.API) == 0 || len(v.Ingress) == 0 {
		return found, false
	}
	return v, true
}

// noUsableVIPs reports whether there are no VIPs that the service could serve.
func (h *host) noUsableVIPs() bool { return h.vipsErr != nil && !h.lastGoodInForce }

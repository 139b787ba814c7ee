// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

func (h *host) isVIP(addr netip.Addr) bool {
	return slices.Contains(h.vips.API, addr) || slices.Contains(h.vips.Ingress, addr)
}

// pathTo is the path from this host to an address.
func (h *host) pathTo(addr netip.Addr) (network.Path, error) {
	return network.PathTo(addr, h.addresses, h.isVIP)
}

// findVIPHolders finds the hosts that have a VIP.
func (h *host) findVIPHolders(ctx context.Context, vip netip.Addr) network.Holders {
	f := network.Finder{Prober: h.prober, IsVIP: h.isVIP, ReadAddresses: address.List}
	return f.Find(ctx, vip, h.addresses)
}

// checkVIPHolders checks whether each VIP is on one reachable host.
func checkVIPHolders(ctx context.Context, h *host) Result {
	if len(h.vips.API) == 0 {
		return skippedResult("no VIPs are known")
	}
	var findings []findings.Finding
	var texts, unknown groupedTexts
	for i, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		role := "API"
		if i >= len(h.vips.API) {
			role = "ingress"
			if slices.Contains(h.vips.API, vip) {
				continue
			}
		}
		x, known := h.observed.vipHolders[vip].await(ctx)
		f, ok := x.Finding(vip, role)
		switch {
		case !known:
			unknown.add(vip, "no time left for the check")
		case ok:
			findings = append(findings, f)
		case x.Local && x.OthersKnown:
			texts.add(vip, "on this host")
		case x.OthersKnown && len(x.OtherMACs) > 1:
			texts.add(vip, "on one host with %s", strings.Join(x.OtherMACs, " and "))
		case x.OthersKnown:
			texts.add(vip, "on the host with %s", x.OtherMACs[0])
		case x.Local:
			texts.add(vip, "on this host (other hosts unknown: %s)", x.Reason)
		default:
			unknown.add(vip, "%s", x.Reason)
		}
	}
	if len(findings) == 0 && texts.empty() {
		return skippedResult("%v", &unknown)
	}
	return findingsResult(findings, "%v", &texts).withNotChecked(unknown.String())
}

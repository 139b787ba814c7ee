// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/obstacles"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/simulator"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/unit"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// checkRuleset simulates a challenge in the host's rulesets.
func checkRuleset(ctx context.Context, h *host) Result {
	var vips []obstacles.VIP
	for _, vip := range slices.Concat(h.ownership.Held, h.ownership.Standby) {
		vips = append(vips, obstacles.VIP{Addr: vip, Link: h.inputLink(vip)})
	}
	switch {
	case len(vips) == 0:
		return skippedResult("this service would serve no API VIP")
	case !h.privileged:
		return skippedResult("only a process with %s can read the rulesets (run it as root)", unit.Capability)
	}
	port := h.config.InternalPort
	all, err := obstacles.Find(ctx, vips, port)
	if err != nil {
		return skippedResult("%v", err)
	}
	var matches []findings.Finding
	for _, o := range all.Items {
		matches = append(matches, findings.New(o.ID, findings.Values{
			"chain": o.Chain(), "rule": o.Rule(ctx), "vip": joinAddresses(o.VIPs), "port": strconv.Itoa(int(port)),
		}))
	}
	return findingsResult(matches, "no rule keeps connections to the API VIPs from port %d", port).withNotChecked(all.NotChecked())
}

// inputLink is the link by which external packets for a VIP arrive: the one with the
// VIP, or the one towards it.
func (h *host) inputLink(vip netip.Addr) simulator.Link {
	w, err := h.pathTo(vip)
	if err != nil || w.Link.Flags&net.FlagLoopback != 0 {
		return simulator.Link{} // rules with this link are not simulated
	}
	return simulator.Link{Index: w.Link.Index, Name: w.Link.Name}
}

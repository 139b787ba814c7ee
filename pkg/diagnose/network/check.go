// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
)

// CheckHolders checks whether each VIP is on one reachable host, or where BGP announces it,
// whether this host holds it correctly. A VIP that is missing in holders could not be checked
// in time.
func CheckHolders(v vips.VIPs, holders map[netip.Addr]Holders) result.Result {
	if len(v.API) == 0 {
		return result.Nothing("no VIPs are known")
	}
	var all result.Subjects
	for _, vip := range v.All() {
		role := "ingress"
		if slices.Contains(v.API, vip) {
			role = "API"
		}
		x, known := holders[vip]
		f, ok := x.Finding(vip, role)
		switch {
		case !known:
			all.Skip(vip, "no time left for the check")
		case ok:
			all.Find(f)
		case x.Shared && x.Local:
			all.Pass(vip, "on this host, announced by BGP from each host that holds it")
		case x.Shared && x.Gateway.IsValid():
			all.Skip(vip, "not on this host, but behind the router %v: other hosts with BGP cannot be queried", x.Gateway)
		case x.Local && x.OthersKnown:
			all.Pass(vip, "on this host")
		case x.OthersKnown && x.Shared:
			all.Pass(vip, "announced by BGP from other hosts, in this network from %s", strings.Join(x.OtherMACs, " and "))
		case x.OthersKnown && len(x.OtherMACs) > 1:
			all.Pass(vip, "on one host with %s, or on several", strings.Join(x.OtherMACs, " and "))
		case x.OthersKnown:
			all.Pass(vip, "on the host with %s", x.OtherMACs[0])
		case x.Local:
			all.Pass(vip, "on this host (other hosts unknown: %s)", x.Reason)
		default:
			all.Skip(vip, "%s", x.Reason)
		}
	}
	return all.Result("")
}

// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// announceTime is the time in which kube-vip adds the route to a VIP that it added.
const announceTime = 1500 * time.Millisecond

// CheckVIPs checks whether the VIPs on this host can be reached: their links, and where BGP
// announces them, the address and the route. Whether several hosts hold a VIP, or none does, is
// known where the reports of all hosts are.
func (h Host) CheckVIPs(ctx context.Context) result.Result {
	if len(h.VIPs.API) == 0 {
		return result.Nothing("no VIPs are known")
	}
	var all result.Subjects
	for _, vip := range h.VIPs.All() {
		role := "ingress"
		if slices.Contains(h.VIPs.API, vip) {
			role = "API"
		}
		id, values := h.vipFault(ctx, vip)
		switch {
		case id != "":
			all.FindAt(findings.New(id, values.With("vip", vip.String()).With("role", role)), vip)
		case !h.Has(vip):
			all.Pass(vip, "not on this host")
		case h.VIPs.BGP:
			all.Pass(vip, "on this host, announced by BGP from each host that holds it")
		default:
			all.Pass(vip, "on this host")
		}
	}
	return all.Result("")
}

// vipFault returns the finding about a VIP, with its values; empty for none.
func (h Host) vipFault(ctx context.Context, vip netip.Addr) (findings.ID, findings.Values) {
	i := slices.IndexFunc(h.Addresses, func(a address.Address) bool { return a.IP == vip && a.DADFailed })
	if h.VIPs.BGP && i >= 0 {
		name := ""
		if link, err := net.InterfaceByIndex(int(h.Addresses[i].Link)); err == nil {
			name = link.Name
		}
		return findings.VIPDADFailed, findings.Values{"link": name}
	}
	if link := h.DownLink(vip); link != nil {
		return findings.VIPLinkDown, findings.Values{"link": link.Name}
	}
	if table := h.VIPs.Tables[vip]; table != 0 && h.Has(vip) && !isAnnounced(table, vip) {
		select {
		case <-time.After(announceTime):
		case <-ctx.Done():
		}
		if !isAnnounced(table, vip) {
			return findings.VIPNotAnnounced, findings.Values{"table": strconv.FormatUint(uint64(table), 10)}
		}
	}
	return "", nil
}

// isAnnounced reports whether a routing table contains a route to a VIP, or is not known.
func isAnnounced(table uint32, vip netip.Addr) bool {
	announced, err := route.InTable(table, vip)
	return err != nil || announced
}

// DownLink is the link of this host with a VIP, if it is down; otherwise nil.
func (h Host) DownLink(vip netip.Addr) *net.Interface {
	w, err := h.PathTo(vip)
	if err != nil || !w.Local || w.Link.Flags&net.FlagUp != 0 && w.Link.Flags&net.FlagRunning != 0 {
		return nil
	}
	return w.Link
}

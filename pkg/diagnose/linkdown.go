// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// attributeToLink attributes a finding about an unreachable ingress to a VIP's link
// that is down, if the path to the ingress uses that link.
func (h *host) attributeToLink(ctx context.Context, f findings.Finding, a ingressResponse) findings.Finding {
	links := h.observed.downLinks(ctx)
	if len(links) == 0 {
		return f
	}
	noWay := a.page.Details.Is(unix.ENETUNREACH) // the routes disappeared with the link
	if noWay || slices.ContainsFunc(links, func(name string) bool { return onLinkNetwork(name, a.addr.Addr()) }) {
		f.CausedBy = append(slices.Clone(f.CausedBy), findings.VIPLinkDown)
	}
	return f
}

// downLinks are the links that are down and have a VIP.
func (s *observations) downLinks(ctx context.Context) []string {
	var links []string
	for _, l := range s.vipHolders {
		if found, known := l.await(ctx); known && found.LinkDown {
			links = append(links, found.Link)
		}
	}
	return links
}

// onLinkNetwork reports whether an address is in a network of a link.
func onLinkNetwork(name string, addr netip.Addr) bool {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	all, err := link.Addrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && !prefix.IsSingleIP() && prefix.Contains(addr)
	})
}

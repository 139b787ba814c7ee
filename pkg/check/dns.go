// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

// checkDNS looks whether the names of the API lead to the VIPs, and whether what
// they lead to works in each family.
func checkDNS(ctx context.Context, h *host) Result {
	if len(h.doors()) == 0 {
		return skipped("there is to be no front door on any VIP")
	}
	r, known := h.seen.dns.wait(ctx)
	switch {
	case !known:
		return skipped("there was no time to look")
	case r.why != "":
		return skipped("%s", r.why)
	case len(r.views) == 0:
		var servers []string
		for _, s := range r.servers {
			servers = append(servers, s.addr.Addr().String())
		}
		return found([]catalogue.Finding{catalogue.Find(catalogue.DNSSilent, "servers", strings.Join(servers, ", "))}, "")
	}
	var findings []catalogue.Finding
	var well []string
	for _, v := range r.views {
		findings = append(findings, h.judgeView(ctx, v)...)
		well = append(well, fmt.Sprintf("%s is %s, says %v", v.name, joined(slices.Concat(v.a[0].addresses, v.a[1].addresses)), v.server.addr.Addr()))
	}
	return found(findings, "%s", strings.Join(well, ", "))
}

// judgeView judges what a server says of a name.
func (h *host) judgeView(ctx context.Context, v view) []catalogue.Finding {
	doors := h.doors()
	if len(v.a[0].addresses)+len(v.a[1].addresses) == 0 {
		return []catalogue.Finding{catalogue.Find(catalogue.DNSAbsent, "name", v.name, "server", v.server.addr.Addr().String(), "vips", joined(doors))}
	}
	var findings []catalogue.Finding
	for family, r := range v.a {
		vips := slices.DeleteFunc(slices.Clone(doors), func(a netip.Addr) bool { return a.Is6() != (family == 1) })
		if len(r.addresses) == 0 && len(vips) > 0 {
			findings = append(findings, catalogue.Find(catalogue.DNSNoFamily,
				"name", v.name, "server", v.server.addr.Addr().String(), "type", kindOf(family == 1), "vips", joined(vips)))
		}
		for _, addr := range r.addresses {
			if slices.Contains(doors, addr) {
				continue
			}
			if page := h.elsewhere(ctx, addr); !isDoor(page) {
				findings = append(findings, catalogue.Find(catalogue.DNSElsewhere,
					"name", v.name, "type", kindOf(family == 1), "address", addr.String(), "how", words(page), "vips", joined(doors)))
			}
		}
	}
	return append(findings, h.judgeFamilies(ctx, v)...)
}

// elsewhere asks an address that is no VIP: it may lead to one all the same.
func (h *host) elsewhere(ctx context.Context, addr netip.Addr) probe.Fetch {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return h.fetch(ctx, probe.FetchQuestion{Addr: netip.AddrPortFrom(addr, httpPort), Host: noName, Path: "/"})
}

// judgeFamilies looks for a VIP of the name that does not work while another
// does. On the host that holds it that says something of this host alone.
func (h *host) judgeFamilies(ctx context.Context, v view) []catalogue.Finding {
	named := slices.Concat(v.a[0].addresses, v.a[1].addresses)
	open, closed := h.askDoors(ctx)
	open = slices.DeleteFunc(open, func(d doorSeen) bool { return !slices.Contains(named, d.vip) })
	if len(open) == 0 {
		return nil
	}
	var findings []catalogue.Finding
	for _, d := range closed {
		if slices.Contains(named, d.vip) && !h.holds(d.vip) {
			findings = append(findings, catalogue.Find(catalogue.FamilyBroken,
				"name", v.name, "door", d.String(), "how", words(d.page), "other", open[0].String()))
		}
	}
	return findings
}

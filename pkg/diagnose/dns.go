// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
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
	case r.silent():
		var servers []string
		for _, s := range r.servers {
			servers = append(servers, s.addr.Addr().String())
		}
		return found([]findings.Finding{findings.Find(findings.DNSSilent, "servers", strings.Join(servers, ", "))}, "")
	}
	findings, well := make([][]findings.Finding, len(r.views)), make([]string, len(r.views))
	var all sync.WaitGroup
	for i, v := range r.views {
		all.Go(func() { findings[i], well[i] = h.judgeView(ctx, v), v.String() })
	}
	all.Wait()
	return found(slices.Concat(findings...), "%s", strings.Join(well, "; "))
}

// String is what the server says.
func (v view) String() string {
	text := fmt.Sprintf("%s is %s, says %v", v.name, list(slices.Concat(v.a[0].Addresses, v.a[1].Addresses)), v.server.addr.Addr())
	if v.server.own {
		text += ", which is on this host: none outside answers"
	}
	return text
}

// judgeView judges what a server says of a name.
func (h *host) judgeView(ctx context.Context, v view) []findings.Finding {
	doors := h.doors()
	values := func(family int, more ...string) []string {
		return append([]string{"name", v.name, "server", v.server.addr.Addr().String(), "type", kindOf(family == 1)}, more...)
	}
	if v.complete() && len(v.a[0].Addresses)+len(v.a[1].Addresses) == 0 {
		return []findings.Finding{findings.Find(findings.DNSAbsent, "name", v.name, "server", v.server.addr.Addr().String(), "vips", list(doors))}
	}
	var matches []findings.Finding
	for family, r := range v.a {
		vips := slices.DeleteFunc(slices.Clone(doors), func(a netip.Addr) bool { return a.Is6() != (family == 1) })
		switch {
		case r.err != nil:
		case r.Failure != "":
			matches = append(matches, findings.Find(findings.DNSFails, values(family, "how", failureText(r.Failure))...))
		case len(r.Addresses) == 0 && len(vips) > 0:
			matches = append(matches, findings.Find(findings.DNSNoFamily, values(family, "vips", list(vips))...))
		}
	}
	matches = append(matches, h.judgeStrays(ctx, v)...)
	return append(matches, h.judgeFamilies(ctx, v)...)
}

// complete reports whether the server has said all that it knows.
func (v view) complete() bool {
	return !slices.ContainsFunc(v.a[:], func(r record) bool { return r.err != nil || r.Failure != "" })
}

func failureText(f prober.LookupFailure) string {
	if f == prober.ServerError {
		return "answers with an error, such as SERVFAIL,"
	}
	return "does not answer"
}

// maxStrays bounds the addresses of a name that are no VIPs and are looked at.
const maxStrays = 4

// judgeStrays judges the addresses of a name that are no VIPs: they may lead to
// one all the same.
func (h *host) judgeStrays(ctx context.Context, v view) []findings.Finding {
	doors := h.doors()
	strays := slices.DeleteFunc(slices.Concat(v.a[0].Addresses, v.a[1].Addresses), func(a netip.Addr) bool { return slices.Contains(doors, a) })
	strays = strays[:min(len(strays), maxStrays)]
	matches := make([]findings.Finding, len(strays))
	var all sync.WaitGroup
	for i, addr := range strays {
		all.Go(func() {
			page, err := h.elsewhere(ctx, addr)
			if err != nil || isDoor(page) {
				return
			}
			id := findings.DNSElsewhere
			if page.Connected == 0 && !h.near(addr) {
				id = findings.DNSElsewhereClosed
			}
			matches[i] = findings.Find(id,
				"name", v.name, "type", kindOf(addr.Is6()), "address", addr.String(), "how", words(page), "vips", list(doors))
		})
	}
	all.Wait()
	return slices.DeleteFunc(matches, func(f findings.Finding) bool { return f.ID == "" })
}

// near reports whether an address is on a network of this host: no router stands
// before it that lets only those outside through.
func (h *host) near(addr netip.Addr) bool {
	w, err := h.wayTo(addr, h.addresses)
	return err == nil && !w.via.IsValid()
}

// elsewhere asks an address that is no VIP.
func (h *host) elsewhere(ctx context.Context, addr netip.Addr) (prober.FetchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+time.Second)
	defer cancel()
	return h.fetch(ctx, prober.FetchRequest{Addr: netip.AddrPortFrom(addr, httpPort), Host: noName, Path: "/"})
}

// judgeFamilies looks for a VIP of the name that does not work while another
// does. On the host that holds it that says something of this host alone.
func (h *host) judgeFamilies(ctx context.Context, v view) []findings.Finding {
	named := slices.Concat(v.a[0].Addresses, v.a[1].Addresses)
	open, closed := h.askDoors(ctx)
	open = slices.DeleteFunc(open, func(d doorSeen) bool { return !slices.Contains(named, d.vip) })
	if len(open) == 0 {
		return nil
	}
	var matches []findings.Finding
	for _, d := range closed {
		if slices.Contains(named, d.vip) && !h.holds(d.vip) {
			matches = append(matches, findings.Find(findings.FamilyBroken,
				"name", v.name, "door", d.String(), "how", words(d.page), "other", open[0].String()))
		}
	}
	return matches
}

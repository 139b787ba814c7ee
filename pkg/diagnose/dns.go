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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// checkDNS looks whether the names of the API lead to the VIPs, and whether what
// they lead to works in each family.
func checkDNS(ctx context.Context, h *host) Result {
	if len(h.servedVIPs()) == 0 {
		return skippedResult("there is to be no front door on any VIP")
	}
	r, known := h.observed.dns.await(ctx)
	switch {
	case !known:
		return skippedResult("there was no time to look")
	case r.reason != "":
		return skippedResult("%s", r.reason)
	case r.unanswered():
		var servers []string
		for _, s := range r.servers {
			servers = append(servers, s.addr.Addr().String())
		}
		return findingsResult([]findings.Finding{findings.New(findings.DNSNoServer, "servers", strings.Join(servers, ", "))}, "")
	}
	findings, well := make([][]findings.Finding, len(r.views)), make([]string, len(r.views))
	var all sync.WaitGroup
	for i, v := range r.views {
		all.Go(func() { findings[i], well[i] = h.judgeView(ctx, v), v.String() })
	}
	all.Wait()
	return findingsResult(slices.Concat(findings...), "%s", strings.Join(well, "; "))
}

// String is what the server says.
func (v dnsView) String() string {
	text := fmt.Sprintf("%s is %s, says %v", v.name, joinAddresses(slices.Concat(v.records[0].Addresses, v.records[1].Addresses)), v.server.addr.Addr())
	if v.server.local {
		text += ", which is on this host: none outside answers"
	}
	return text
}

// judgeView judges what a server says of a name.
func (h *host) judgeView(ctx context.Context, v dnsView) []findings.Finding {
	doors := h.servedVIPs()
	values := func(family int, more ...string) []string {
		return append([]string{"name", v.name, "server", v.server.addr.Addr().String(), "type", recordType(family == 1)}, more...)
	}
	if v.complete() && len(v.records[0].Addresses)+len(v.records[1].Addresses) == 0 {
		return []findings.Finding{findings.New(findings.DNSNoRecord, "name", v.name, "server", v.server.addr.Addr().String(), "vips", joinAddresses(doors))}
	}
	var matches []findings.Finding
	for family, r := range v.records {
		vips := slices.DeleteFunc(slices.Clone(doors), func(a netip.Addr) bool { return a.Is6() != (family == 1) })
		switch {
		case r.err != nil:
		case r.Failure != "":
			matches = append(matches, findings.New(findings.DNSServerFails, values(family, "how", failureText(r.Failure))...))
		case len(r.Addresses) == 0 && len(vips) > 0:
			matches = append(matches, findings.New(findings.DNSFamilyMissing, values(family, "vips", joinAddresses(vips))...))
		}
	}
	matches = append(matches, h.judgeOtherAddresses(ctx, v)...)
	return append(matches, h.judgeFamilies(ctx, v)...)
}

// complete reports whether the server has said all that it knows.
func (v dnsView) complete() bool {
	return !slices.ContainsFunc(v.records[:], func(r dnsRecord) bool { return r.err != nil || r.Failure != "" })
}

func failureText(f protocol.LookupFailure) string {
	if f == protocol.ServerError {
		return "answers with an error, such as SERVFAIL,"
	}
	return "does not answer"
}

// maxOtherAddresses bounds the addresses of a name that are no VIPs and are looked at.
const maxOtherAddresses = 4

// judgeOtherAddresses judges the addresses of a name that are no VIPs: they may lead to
// one all the same.
func (h *host) judgeOtherAddresses(ctx context.Context, v dnsView) []findings.Finding {
	doors := h.servedVIPs()
	strays := slices.DeleteFunc(slices.Concat(v.records[0].Addresses, v.records[1].Addresses), func(a netip.Addr) bool { return slices.Contains(doors, a) })
	strays = strays[:min(len(strays), maxOtherAddresses)]
	matches := make([]findings.Finding, len(strays))
	var all sync.WaitGroup
	for i, addr := range strays {
		all.Go(func() {
			page, err := h.fetchOtherAddress(ctx, addr)
			if err != nil || isProxyResponse(page) {
				return
			}
			id := findings.DNSOtherAddress
			if page.Connected == 0 && !h.onLocalNetwork(addr) {
				id = findings.DNSOtherAddressUnreachable
			}
			matches[i] = findings.New(id,
				"name", v.name, "type", recordType(addr.Is6()), "address", addr.String(), "how", describeFetch(page), "vips", joinAddresses(doors))
		})
	}
	all.Wait()
	return slices.DeleteFunc(matches, func(f findings.Finding) bool { return f.ID == "" })
}

// onLocalNetwork reports whether an address is on a network of this host: no router stands
// before it that lets only those outside through.
func (h *host) onLocalNetwork(addr netip.Addr) bool {
	w, err := h.pathTo(addr, h.addresses)
	return err == nil && !w.gateway.IsValid()
}

// fetchOtherAddress asks an address that is no VIP.
func (h *host) fetchOtherAddress(ctx context.Context, addr netip.Addr) (protocol.FetchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+time.Second)
	defer cancel()
	return h.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(addr, httpPort), Host: placeholderName, Path: "/"})
}

// judgeFamilies looks for a VIP of the name that does not work while another
// does. On the host that holds it that says something of this host alone.
func (h *host) judgeFamilies(ctx context.Context, v dnsView) []findings.Finding {
	named := slices.Concat(v.records[0].Addresses, v.records[1].Addresses)
	open, closed := h.vipResponses(ctx)
	open = slices.DeleteFunc(open, func(d vipResponse) bool { return !slices.Contains(named, d.vip) })
	if len(open) == 0 {
		return nil
	}
	var matches []findings.Finding
	for _, d := range closed {
		if slices.Contains(named, d.vip) && !h.holdsVIP(d.vip) {
			matches = append(matches, findings.New(findings.AddressFamilyBroken,
				"name", v.name, "door", d.String(), "how", describeFetch(d.page), "other", open[0].String()))
		}
	}
	return matches
}

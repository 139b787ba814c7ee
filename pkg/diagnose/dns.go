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

// checkDNS checks whether the names of the API resolve to the VIPs, and whether the
// addresses work in each family.
func checkDNS(ctx context.Context, h *host) Result {
	if len(h.servedVIPs()) == 0 {
		return skippedResult("http01-proxyd serves no VIP")
	}
	r, known := h.observed.dns.await(ctx)
	switch {
	case !known:
		return skippedResult("no time left for the check")
	case r.reason != "":
		return skippedResult("%s", r.reason)
	case r.unanswered():
		var servers []string
		for _, s := range r.servers {
			servers = append(servers, s.addr.Addr().String())
		}
		return findingsResult([]findings.Finding{findings.New(findings.DNSNoServer, findings.Values{"servers": strings.Join(servers, ", ")})}, "")
	}
	findings, texts := make([][]findings.Finding, len(r.views)), make([]string, len(r.views))
	var all sync.WaitGroup
	for i, v := range r.views {
		all.Go(func() { findings[i], texts[i] = h.judgeView(ctx, v), v.String() })
	}
	all.Wait()
	return findingsResult(slices.Concat(findings...), "%s", strings.Join(texts, "; "))
}

// String describes the records of the server.
func (v dnsView) String() string {
	text := fmt.Sprintf("%s is %s, from %v", v.name, joinAddresses(slices.Concat(v.records[0].Addresses, v.records[1].Addresses)), v.server.addr.Addr())
	if v.server.local {
		text += " on this host; no other server responds"
	}
	return text
}

// judgeView evaluates the records of a name at a server.
func (h *host) judgeView(ctx context.Context, v dnsView) []findings.Finding {
	vips := h.servedVIPs()
	values := func(family int) findings.Values {
		return findings.Values{"name": v.name, "server": v.server.addr.Addr().String(), "type": recordType(family == 1)}
	}
	if v.complete() && len(v.records[0].Addresses)+len(v.records[1].Addresses) == 0 {
		return []findings.Finding{findings.New(findings.DNSNoRecord, findings.Values{"name": v.name, "server": v.server.addr.Addr().String(), "vips": joinAddresses(vips)})}
	}
	var matches []findings.Finding
	for family, r := range v.records {
		vips := slices.DeleteFunc(slices.Clone(vips), func(a netip.Addr) bool { return a.Is6() != (family == 1) })
		switch {
		case r.err != nil:
		case r.Failure != "":
			matches = append(matches, findings.New(findings.DNSServerFails, values(family).With("how", failureText(r.Failure))))
		case len(r.Addresses) == 0 && len(vips) > 0:
			matches = append(matches, findings.New(findings.DNSFamilyMissing, values(family).With("vips", joinAddresses(vips))))
		}
	}
	matches = append(matches, h.judgeOtherAddresses(ctx, v)...)
	return append(matches, h.judgeFamilies(ctx, v)...)
}

// complete reports whether the server answered both queries.
func (v dnsView) complete() bool {
	return !slices.ContainsFunc(v.records[:], func(r dnsRecord) bool { return r.err != nil || r.Failure != "" })
}

func failureText(f protocol.LookupFailure) string {
	if f == protocol.ServerError {
		return "returns an error, such as SERVFAIL,"
	}
	return "does not respond"
}

// maxOtherAddresses bounds the tested addresses of a name that are not VIPs.
const maxOtherAddresses = 4

// judgeOtherAddresses evaluates the addresses of a name that are not VIPs. They may
// forward to a VIP.
func (h *host) judgeOtherAddresses(ctx context.Context, v dnsView) []findings.Finding {
	vips := h.servedVIPs()
	others := slices.DeleteFunc(slices.Concat(v.records[0].Addresses, v.records[1].Addresses), func(a netip.Addr) bool { return slices.Contains(vips, a) })
	others = others[:min(len(others), maxOtherAddresses)]
	matches := make([]findings.Finding, len(others))
	var all sync.WaitGroup
	for i, addr := range others {
		all.Go(func() {
			page, err := h.fetchOtherAddress(ctx, addr)
			if err != nil || isProxyResponse(page) {
				return
			}
			id := findings.DNSOtherAddress
			if page.Connected == 0 && !h.onLocalNetwork(addr) {
				id = findings.DNSOtherAddressUnreachable
			}
			matches[i] = findings.New(id, findings.Values{"name": v.name, "type": recordType(addr.Is6()), "address": addr.String(), "how": describeFetch(page), "vips": joinAddresses(vips)})
		})
	}
	all.Wait()
	return slices.DeleteFunc(matches, func(f findings.Finding) bool { return f.ID == "" })
}

// onLocalNetwork reports whether an address is on a network of this host, without a
// router that might admit only external clients.
func (h *host) onLocalNetwork(addr netip.Addr) bool {
	w, err := h.pathTo(addr)
	return err == nil && !w.Gateway.IsValid()
}

// fetchOtherAddress sends a request to an address that is not a VIP.
func (h *host) fetchOtherAddress(ctx context.Context, addr netip.Addr) (protocol.FetchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+time.Second)
	defer cancel()
	return h.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(addr, httpPort), Host: placeholderName, Path: "/"})
}

// judgeFamilies finds a VIP of the name that does not work while another does. On the
// host that holds the VIP, this indicates a fault of that host only.
func (h *host) judgeFamilies(ctx context.Context, v dnsView) []findings.Finding {
	addresses := slices.Concat(v.records[0].Addresses, v.records[1].Addresses)
	open, closed := h.vipResponses(ctx)
	open = slices.DeleteFunc(open, func(d vipResponse) bool { return !slices.Contains(addresses, d.vip) })
	if len(open) == 0 {
		return nil
	}
	var matches []findings.Finding
	for _, d := range closed {
		if slices.Contains(addresses, d.vip) && !h.holdsVIP(d.vip) {
			matches = append(matches, findings.New(findings.AddressFamilyBroken, findings.Values{"name": v.name, "endpoint": d.String(), "how": describeFetch(d.page), "other": open[0].String()}))
		}
	}
	return matches
}

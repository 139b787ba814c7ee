// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// Names are the names of the API in the DNS, and what responds at their addresses.
type Names struct {
	Answers

	VIPs    []netip.Addr         // the names must resolve to them
	AtOther map[netip.Addr]Other // of addresses that are not VIPs
}

// Other is the response at an address that is not a VIP. It may forward to a VIP.
type Other struct {
	Page      protocol.FetchResult
	Neighbour bool // it is on a network of this host, without a router that might admit only external clients
}

// maxOtherAddresses bounds the tested addresses of a name that are not VIPs.
const maxOtherAddresses = 4

// Others are the addresses of a name to test that are not VIPs.
func (v View) Others(vips []netip.Addr) []netip.Addr {
	others := slices.DeleteFunc(v.Addresses(), func(a netip.Addr) bool { return slices.Contains(vips, a) })
	return others[:min(len(others), maxOtherAddresses)]
}

// Check checks whether the names of the API resolve to the VIPs, and whether the addresses
// work in each family.
func (n Names) Check() result.Result {
	switch {
	case n.Reason != "":
		return result.Skip("%s", n.Reason)
	case n.unanswered():
		var servers []string
		for _, s := range n.Servers {
			servers = append(servers, s.Addr.Addr().String())
		}
		values := findings.Values{"servers": strings.Join(servers, ", "), "server": servers[0]}
		return result.Found(findings.DNSNoServer, values)
	}
	var matches []findings.Finding
	var texts []string
	for _, v := range n.Views {
		matches = append(matches, n.judge(v)...)
		texts = append(texts, v.String())
	}
	return result.PassUnless(matches, "%s", strings.Join(texts, "; "))
}

// String describes the records of the server.
func (v View) String() string {
	text := fmt.Sprintf("%s is %s, from %v", v.Name, result.JoinAddresses(v.Addresses()), v.Server.Addr.Addr())
	if v.Server.Local {
		text += " on this host; no other server responds"
	}
	return text
}

// judge evaluates the records of a name at a server.
func (n Names) judge(v View) []findings.Finding {
	vips := n.VIPs
	values := func(family int) findings.Values {
		return findings.Values{"name": v.Name, "server": v.Server.Addr.Addr().String(), "type": RecordType(family == 1)}
	}
	if v.complete() && len(v.Addresses()) == 0 {
		return []findings.Finding{findings.New(findings.DNSNoRecord, values(0).With("vips", result.JoinAddresses(vips)))}
	}
	var matches []findings.Finding
	for family, r := range v.Records {
		vips := slices.DeleteFunc(slices.Clone(vips), func(a netip.Addr) bool { return a.Is6() != (family == 1) })
		switch {
		case v.Err != nil:
		case r.Failure != "":
			how := FailureText(r.Failure)
			f := findings.New(findings.DNSServerFails, values(family).With("how", how))
			if r.Failure == protocol.ServerBogus {
				f = findings.New(findings.DNSSECBogus, values(family))
			}
			matches = result.Merge(matches, f, result.Label("for "+RecordType(family == 1)))
		case len(r.Addresses) == 0 && len(vips) > 0:
			missing := values(family).With("vips", result.JoinAddresses(vips))
			matches = append(matches, findings.New(findings.DNSFamilyMissing, missing))
		}
	}
	for _, addr := range v.Others(vips) {
		other, known := n.AtOther[addr]
		if !known || response.IsFromProxy(other.Page) {
			continue
		}
		f := findings.New(findings.DNSOtherAddress, findings.Values{
			"name": v.Name, "type": RecordType(addr.Is6()), "address": addr.String(), "server": v.Server.Addr.Addr().String(),
			"how": response.Describe(other.Page), "vips": result.JoinAddresses(vips),
		})
		if other.Page.Connected == 0 && !other.Neighbour {
			f.Level = findings.Warning // it may be for external clients
		}
		matches = result.Merge(matches, f, addr)
	}
	return matches
}

// complete reports whether the server answered both queries.
func (v View) complete() bool {
	return v.Err == nil && v.Records[0].Failure == "" && v.Records[1].Failure == ""
}

// FailureText describes the failure of a server.
func FailureText(f protocol.LookupFailure) string {
	switch f {
	case protocol.ServerBogus:
		return "rejects the DNSSEC signatures"
	case protocol.ServerError:
		return "returns an error, such as SERVFAIL,"
	default:
		return "does not respond"
	}
}

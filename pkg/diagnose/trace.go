// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Step is one step on the way of a challenge.
type TraceStep struct {
	Step       string  `json:"hop"`          // dns, connect, front-door, ingress, solver, lets-encrypt or cert-manager
	To         string  `json:"to,omitempty"` // what was asked
	Outcome    Outcome `json:"outcome"`
	Text       string  `json:"text"`
	DurationMs float64 `json:"durationMs,omitempty"`
}

func newStep(name, to string, well bool, took time.Duration, format string, args ...any) TraceStep {
	h := TraceStep{Step: name, To: to, Outcome: OK, Text: fmt.Sprintf(format, args...), DurationMs: float64(took.Microseconds()) / 1000}
	if !well {
		h.Outcome = Problem
	}
	return h
}

// addressResponse is what a validator gets at one address.
type addressResponse struct {
	addr netip.AddrPort
	page protocol.FetchResult
}

// traceChallenge walks the way of one challenge as a validator does: the addresses of the
// name, a connection to each, the front door's answer; then the same straight from
// the ingress, and what Let's Encrypt and cert-manager make of it.
func (h *host) traceChallenge(ctx context.Context) []TraceStep {
	name := h.observed.apiName(ctx)
	if name == placeholderName {
		return []TraceStep{newStep("dns", "", false, 0, "no name of the API is known: give one with --name")}
	}
	hops, addresses := h.traceDNS(ctx, name)
	var ways []addressResponse
	for _, addr := range addresses {
		to := netip.AddrPortFrom(addr, httpPort)
		page, asked := h.fetchChallenge(ctx, to)
		if !asked {
			hops = append(hops, newStep("connect", to.String(), false, 0, "there was no time to ask"))
			continue
		}
		ways = append(ways, addressResponse{to, page})
		hops = append(hops, newStep("connect", to.String(), page.Connected > 0, page.Connected, "%s", describeConnection(page)))
		if page.Connected > 0 {
			hops = append(hops, newStep("front-door", to.String(), isCompleteOK(page), page.Total, "%s%s", describeResponse(page), describeResponder(page)))
		}
	}
	for _, a := range h.ingressResponses(ctx) {
		hops = append(hops, newStep("ingress", a.addr.String(), isCompleteOK(a.page), a.page.Total, "%s", describeResponse(a.page)))
	}
	hops = append(hops, h.traceKeys(ways)...)
	return append(hops, h.letsEncryptStep(ways), h.certManagerStep(ways))
}

// traceDNS lists the addresses of the name in the order in which a CA takes them.
// Where the DNS has none the way goes on from the VIPs.
func (h *host) traceDNS(ctx context.Context, name string) (hops []TraceStep, addresses []netip.Addr) {
	r, known := h.observed.dns.await(ctx)
	i := slices.IndexFunc(r.views, func(v dnsView) bool { return v.name == name && v.rank() > 0 })
	if !known || i < 0 {
		why := r.reason
		if why == "" {
			why = "no server answers"
		}
		return []TraceStep{newStep("dns", name, false, lookupTimeout, "%s: going on from the VIPs", why)}, h.servedVIPs()
	}
	v := r.views[i]
	for _, family := range []int{1, 0} {
		record := v.records[family]
		well := record.err == nil && record.Failure == ""
		text := fmt.Sprintf("%s, says %v", cmp.Or(joinAddresses(record.Addresses), "none"), v.server.addr.Addr())
		switch {
		case record.err != nil:
			text = record.err.Error()
		case !well:
			text = fmt.Sprintf("%v %s", v.server.addr.Addr(), strings.TrimSuffix(failureText(record.Failure), ","))
		}
		hops = append(hops, newStep("dns", name+" "+recordType(family == 1), well, record.took, "%s", text))
		addresses = append(addresses, record.Addresses...)
	}
	if len(addresses) == 0 {
		hops[0].Outcome, hops[1].Outcome = Problem, Problem
		return hops, h.servedVIPs()
	}
	return hops, addresses
}

// fetchChallenge is what the name's address answers to the challenge, if it could be asked.
func (h *host) fetchChallenge(ctx context.Context, to netip.AddrPort) (protocol.FetchResult, bool) {
	if l := h.observed.challengePages[to.Addr()]; l != nil {
		return l.await(ctx)
	}
	page, err := h.fetch(ctx, protocol.FetchRequest{Addr: to, Host: h.observed.apiName(ctx), Path: challengePrefix + h.Token})
	return page, err == nil
}

func describeConnection(f protocol.FetchResult) string {
	if f.Connected > 0 {
		return "connected"
	}
	return describeFetch(f)
}

// isCompleteOK reports whether the answer is 200, and came to its end.
func isCompleteOK(f protocol.FetchResult) bool { return f.Status == 200 && f.Cause == "" }

func describeResponse(f protocol.FetchResult) string {
	if f.Cause != "" {
		return describeFetch(f)
	}
	return fmt.Sprintf("%s, %d bytes", describeFetch(f), f.Length)
}

// describeResponder says whether the front door was met: it puts itself into Via.
func describeResponder(f protocol.FetchResult) string {
	switch {
	case f.Status == 0:
		return ""
	case isProxyResponse(f):
		return " (the front door's own: the name or the path is not allowed)"
	case forwardedByProxy(f):
		return " (through the front door)"
	case f.Status == 502 || f.Status == 504:
		return fmt.Sprintf(" (its page begins with %q)", bytes.TrimSpace(printableOnly(f.Body)))
	default:
		return " (not through the front door)"
	}
}

func printableOnly(body []byte) []byte {
	return []byte(report.OneLine(string(body[:min(len(body), 100)])))
}

// traceKeys says what the answers are.
func (h *host) traceKeys(ways []addressResponse) []TraceStep {
	var hops []TraceStep
	for _, w := range ways {
		if w.page.Status != 200 || w.page.Cause != "" {
			continue
		}
		id, values := keyFault(w.page.Body, w.page.Length, h.Token)
		text := fmt.Sprintf("the key: the token and a thumbprint, %d bytes", w.page.Length)
		if id != "" {
			text = findings.New(id, values...).Message
		}
		hops = append(hops, newStep("solver", w.addr.String(), id == "", 0, "%s", text))
	}
	return hops
}

// letsEncryptStep says what Let's Encrypt would make of it (boulder, va/http.go): it
// connects to IPv6 first, to IPv4 only if that cannot be connected to, wants 200
// and less than 128 bytes, and cuts white space off the end.
func (h *host) letsEncryptStep(ways []addressResponse) TraceStep {
	const who = "lets-encrypt"
	var tried []addressResponse // one address of each family
	for _, v6 := range []bool{true, false} {
		if i := slices.IndexFunc(ways, func(w addressResponse) bool { return w.addr.Addr().Is6() == v6 }); i >= 0 {
			tried = append(tried, ways[i])
		}
	}
	i := slices.IndexFunc(tried, func(w addressResponse) bool { return w.page.Connected > 0 })
	if i < 0 {
		return newStep(who, "", false, 0, "it would refuse: no address can be connected to")
	}
	w := tried[i]
	key := bytes.TrimRight(w.page.Body, " \t\r\n")
	switch {
	case w.page.Cause != "":
		return newStep(who, w.addr.String(), false, 0, "it would refuse: %s", describeFetch(w.page))
	case pageCause(w.page) == upstream.RedirectToHTTPS:
		return newStep(who, w.addr.String(), false, 0, "it would follow the redirect to %q, which the API server's host does not serve", w.page.Location)
	case w.page.Status != 200:
		return newStep(who, w.addr.String(), false, 0, "it would refuse: status %d", w.page.Status)
	case w.page.Length > maxKeyLength:
		return newStep(who, w.addr.String(), false, 0, "it would refuse: %d bytes, and it reads %d", w.page.Length, maxKeyLength)
	case !keyPattern(h.Token).Match(key):
		return newStep(who, w.addr.String(), false, 0, "it would refuse: not the key of this token")
	default:
		return newStep(who, w.addr.String(), true, 0, "it would accept, if the thumbprint is the account's")
	}
}

// certManagerStep says what cert-manager's self check would: it takes the first
// connection that there is, and compares byte for byte.
func (h *host) certManagerStep(ways []addressResponse) TraceStep {
	const who = "cert-manager"
	i := slices.IndexFunc(ways, func(w addressResponse) bool { return w.page.Connected > 0 })
	if i < 0 {
		return newStep(who, "", false, 0, "the self check would go on failing: no address can be connected to")
	}
	w := ways[i]
	switch {
	case w.page.Cause != "" && upstream.Cause(w.page.Cause) != upstream.AnswerTruncated:
		return newStep(who, w.addr.String(), false, 0, "the self check would go on failing: %s", describeFetch(w.page))
	case w.page.Status != 200:
		return newStep(who, w.addr.String(), false, 0, "the self check would go on failing: status %d", w.page.Status)
	case !keyPattern(h.Token).Match(w.page.Body) || w.page.Length != len(w.page.Body):
		return newStep(who, w.addr.String(), false, 0, "the self check would go on failing: the answer is not the key byte for byte")
	default:
		return newStep(who, w.addr.String(), true, 0, "the self check would pass, if the thumbprint is the account's")
	}
}

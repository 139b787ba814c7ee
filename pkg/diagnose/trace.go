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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Hop is one step on the way of a challenge.
type Hop struct {
	Hop     string  `json:"hop"`          // dns, connect, front-door, ingress, solver, lets-encrypt or cert-manager
	To      string  `json:"to,omitempty"` // what was asked
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text"`
	Took    float64 `json:"durationMs,omitempty"`
}

func hop(name, to string, well bool, took time.Duration, format string, args ...any) Hop {
	h := Hop{Hop: name, To: to, Outcome: Fine, Text: fmt.Sprintf(format, args...), Took: float64(took.Microseconds()) / 1000}
	if !well {
		h.Outcome = Failed
	}
	return h
}

// walked is what a validator gets at one address.
type walked struct {
	addr netip.AddrPort
	page prober.FetchResult
}

// trace walks the way of one challenge as a validator does: the addresses of the
// name, a connection to each, the front door's answer; then the same straight from
// the ingress, and what Let's Encrypt and cert-manager make of it.
func (h *host) trace(ctx context.Context) []Hop {
	name := h.seen.name(ctx)
	if name == noName {
		return []Hop{hop("dns", "", false, 0, "no name of the API is known: give one with --name")}
	}
	hops, addresses := h.traceDNS(ctx, name)
	var ways []walked
	for _, addr := range addresses {
		to := netip.AddrPortFrom(addr, httpPort)
		page, asked := h.walk(ctx, to)
		if !asked {
			hops = append(hops, hop("connect", to.String(), false, 0, "there was no time to ask"))
			continue
		}
		ways = append(ways, walked{to, page})
		hops = append(hops, hop("connect", to.String(), page.Connected > 0, page.Connected, "%s", connected(page)))
		if page.Connected > 0 {
			hops = append(hops, hop("front-door", to.String(), wholly(page), page.Total, "%s%s", answered(page), behind(page)))
		}
	}
	for _, a := range h.askIngress(ctx) {
		hops = append(hops, hop("ingress", a.addr.String(), wholly(a.page), a.page.Total, "%s", answered(a.page)))
	}
	hops = append(hops, h.traceAnswers(ways)...)
	return append(hops, h.letsEncrypt(ways), h.certManager(ways))
}

// traceDNS lists the addresses of the name in the order in which a CA takes them.
// Where the DNS has none the way goes on from the VIPs.
func (h *host) traceDNS(ctx context.Context, name string) (hops []Hop, addresses []netip.Addr) {
	r, known := h.seen.dns.wait(ctx)
	i := slices.IndexFunc(r.views, func(v view) bool { return v.name == name && v.weight() > 0 })
	if !known || i < 0 {
		why := r.why
		if why == "" {
			why = "no server answers"
		}
		return []Hop{hop("dns", name, false, lookupTimeout, "%s: going on from the VIPs", why)}, h.doors()
	}
	v := r.views[i]
	for _, family := range []int{1, 0} {
		record := v.a[family]
		well := record.err == nil && record.Failure == ""
		text := fmt.Sprintf("%s, says %v", cmp.Or(list(record.Addresses), "none"), v.server.addr.Addr())
		switch {
		case record.err != nil:
			text = record.err.Error()
		case !well:
			text = fmt.Sprintf("%v %s", v.server.addr.Addr(), strings.TrimSuffix(failureText(record.Failure), ","))
		}
		hops = append(hops, hop("dns", name+" "+kindOf(family == 1), well, record.took, "%s", text))
		addresses = append(addresses, record.Addresses...)
	}
	if len(addresses) == 0 {
		hops[0].Outcome, hops[1].Outcome = Failed, Failed
		return hops, h.doors()
	}
	return hops, addresses
}

// walk is what the name's address answers to the challenge, if it could be asked.
func (h *host) walk(ctx context.Context, to netip.AddrPort) (prober.FetchResult, bool) {
	if l := h.seen.challenge[to.Addr()]; l != nil {
		return l.wait(ctx)
	}
	page, err := h.fetch(ctx, prober.FetchRequest{Addr: to, Host: h.seen.name(ctx), Path: acmePath + h.Token})
	return page, err == nil
}

func connected(f prober.FetchResult) string {
	if f.Connected > 0 {
		return "connected"
	}
	return words(f)
}

// wholly reports whether the answer is 200, and came to its end.
func wholly(f prober.FetchResult) bool { return f.Status == 200 && f.Cause == "" }

func answered(f prober.FetchResult) string {
	if f.Cause != "" {
		return words(f)
	}
	return fmt.Sprintf("%s, %d bytes", words(f), f.Length)
}

// behind says whether the front door was met: it puts itself into Via.
func behind(f prober.FetchResult) string {
	switch {
	case f.Status == 0:
		return ""
	case isDoor(f):
		return " (the front door's own: the name or the path is not allowed)"
	case passedOn(f):
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

// traceAnswers says what the answers are.
func (h *host) traceAnswers(ways []walked) []Hop {
	var hops []Hop
	for _, w := range ways {
		if w.page.Status != 200 || w.page.Cause != "" {
			continue
		}
		id, values := misform(w.page.Body, w.page.Length, h.Token)
		text := fmt.Sprintf("the key: the token and a thumbprint, %d bytes", w.page.Length)
		if id != "" {
			text = findings.Find(id, values...).Says
		}
		hops = append(hops, hop("solver", w.addr.String(), id == "", 0, "%s", text))
	}
	return hops
}

// letsEncrypt says what Let's Encrypt would make of it (boulder, va/http.go): it
// connects to IPv6 first, to IPv4 only if that cannot be connected to, wants 200
// and less than 128 bytes, and cuts white space off the end.
func (h *host) letsEncrypt(ways []walked) Hop {
	const who = "lets-encrypt"
	var tried []walked // one address of each family
	for _, v6 := range []bool{true, false} {
		if i := slices.IndexFunc(ways, func(w walked) bool { return w.addr.Addr().Is6() == v6 }); i >= 0 {
			tried = append(tried, ways[i])
		}
	}
	i := slices.IndexFunc(tried, func(w walked) bool { return w.page.Connected > 0 })
	if i < 0 {
		return hop(who, "", false, 0, "it would refuse: no address can be connected to")
	}
	w := tried[i]
	key := bytes.TrimRight(w.page.Body, " \t\r\n")
	switch {
	case w.page.Cause != "":
		return hop(who, w.addr.String(), false, 0, "it would refuse: %s", words(w.page))
	case causeOf(w.page) == upstream.RedirectToHTTPS:
		return hop(who, w.addr.String(), false, 0, "it would follow the redirect to %q, which the API server's host does not serve", w.page.Location)
	case w.page.Status != 200:
		return hop(who, w.addr.String(), false, 0, "it would refuse: status %d", w.page.Status)
	case w.page.Length > maxKey:
		return hop(who, w.addr.String(), false, 0, "it would refuse: %d bytes, and it reads %d", w.page.Length, maxKey)
	case !form(h.Token).Match(key):
		return hop(who, w.addr.String(), false, 0, "it would refuse: not the key of this token")
	default:
		return hop(who, w.addr.String(), true, 0, "it would accept, if the thumbprint is the account's")
	}
}

// certManager says what cert-manager's self check would: it takes the first
// connection that there is, and compares byte for byte.
func (h *host) certManager(ways []walked) Hop {
	const who = "cert-manager"
	i := slices.IndexFunc(ways, func(w walked) bool { return w.page.Connected > 0 })
	if i < 0 {
		return hop(who, "", false, 0, "the self check would go on failing: no address can be connected to")
	}
	w := ways[i]
	switch {
	case w.page.Cause != "" && upstream.Cause(w.page.Cause) != upstream.AnswerTruncated:
		return hop(who, w.addr.String(), false, 0, "the self check would go on failing: %s", words(w.page))
	case w.page.Status != 200:
		return hop(who, w.addr.String(), false, 0, "the self check would go on failing: status %d", w.page.Status)
	case !form(h.Token).Match(w.page.Body) || w.page.Length != len(w.page.Body):
		return hop(who, w.addr.String(), false, 0, "the self check would go on failing: the answer is not the key byte for byte")
	default:
		return hop(who, w.addr.String(), true, 0, "the self check would pass, if the thumbprint is the account's")
	}
}

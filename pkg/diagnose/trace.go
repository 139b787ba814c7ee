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

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// TraceStep is one step in the trace of a challenge.
type TraceStep struct {
	Step       string  `json:"step"`         // dns, connect, proxy, ingress, solver, lets-encrypt or cert-manager
	To         string  `json:"to,omitempty"` // name or address of the request
	Outcome    Outcome `json:"outcome"`
	Text       string  `json:"text"`
	DurationMs float64 `json:"durationMs,omitempty"`
}

func newStep(name, to string, ok bool, took time.Duration, format string, args ...any) TraceStep {
	h := TraceStep{Step: name, To: to, Outcome: OK, Text: fmt.Sprintf(format, args...), DurationMs: float64(took.Microseconds()) / 1000}
	if !ok {
		h.Outcome = Problem
	}
	return h
}

// addressResponse is the response that a validator gets at one address.
type addressResponse struct {
	addr netip.AddrPort
	page protocol.FetchResult
}

// traceChallenge traces one challenge as a validator does: the addresses of the name, a
// connection to each, and the proxy's response. Then it compares the response of the
// ingress, and evaluates both like Let's Encrypt and cert-manager.
func (h *host) traceChallenge(ctx context.Context) []TraceStep {
	name := h.observed.apiName(ctx)
	if name == placeholderName {
		return []TraceStep{newStep("dns", "", false, 0, "the API's name is unknown (set --name)")}
	}
	steps, addresses := h.traceDNS(ctx, name)
	var responses []addressResponse
	for _, addr := range addresses {
		to := netip.AddrPortFrom(addr, httpPort)
		page, ok := h.fetchChallenge(ctx, to)
		if !ok {
			steps = append(steps, newStep("connect", to.String(), false, 0, "no time left for the request"))
			continue
		}
		responses = append(responses, addressResponse{to, page})
		steps = append(steps, newStep("connect", to.String(), page.Connected > 0, page.Connected, "%s", describeConnection(page)))
		if page.Connected > 0 {
			steps = append(steps, newStep("proxy", to.String(), isCompleteOK(page), page.Total, "%s%s", describeResponse(page), describeResponder(page)))
		}
	}
	for _, a := range h.ingressResponses(ctx) {
		steps = append(steps, newStep("ingress", a.addr.String(), isCompleteOK(a.page), a.page.Total, "%s", describeResponse(a.page)))
	}
	steps = append(steps, h.traceKeys(responses)...)
	return append(steps, h.letsEncryptStep(responses), h.certManagerStep(responses))
}

// traceDNS lists the addresses of the name in the order in which a CA uses them.
// Without addresses in the DNS, the trace continues with the VIPs.
func (h *host) traceDNS(ctx context.Context, name string) (steps []TraceStep, addresses []netip.Addr) {
	r, known := h.observed.dns.await(ctx)
	i := slices.IndexFunc(r.views, func(v dnsView) bool { return v.name == name && v.rank() > 0 })
	if !known || i < 0 {
		why := r.reason
		if why == "" {
			why = "no server responds"
		}
		return []TraceStep{newStep("dns", name, false, lookupTimeout, "%s; continuing with the VIPs", why)}, h.servedVIPs()
	}
	v := r.views[i]
	for _, family := range []int{1, 0} {
		record := v.records[family]
		ok := record.err == nil && record.Failure == ""
		text := fmt.Sprintf("%s, from %v", cmp.Or(joinAddresses(record.Addresses), "none"), v.server.addr.Addr())
		switch {
		case record.err != nil:
			text = record.err.Error()
		case !ok:
			text = fmt.Sprintf("%v %s", v.server.addr.Addr(), strings.TrimSuffix(failureText(record.Failure), ","))
		}
		steps = append(steps, newStep("dns", name+" "+recordType(family == 1), ok, record.took, "%s", text))
		addresses = append(addresses, record.Addresses...)
	}
	if len(addresses) == 0 {
		steps[0].Outcome, steps[1].Outcome = Problem, Problem
		return steps, h.servedVIPs()
	}
	return steps, addresses
}

// fetchChallenge requests the challenge at an address of the name.
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

// isCompleteOK reports whether the response is 200 and complete.
func isCompleteOK(f protocol.FetchResult) bool { return f.Status == 200 && f.Cause == "" }

func describeResponse(f protocol.FetchResult) string {
	if f.Cause != "" {
		return describeFetch(f)
	}
	return fmt.Sprintf("%s, %d bytes", describeFetch(f), f.Length)
}

// describeResponder reports whether the response came through http01-proxyd, which adds
// a Via field.
func describeResponder(f protocol.FetchResult) string {
	switch {
	case f.Status == 0:
		return ""
	case isProxyResponse(f):
		return " (from the proxy itself: the name or the path is not allowed)"
	case forwardedByProxy(f):
		return " (forwarded by the proxy)"
	case f.Status == 502 || f.Status == 504:
		return fmt.Sprintf(" (its body begins with %q)", bodyStart(f.Body))
	default:
		return " (not from http01-proxyd)"
	}
}

// bodyStart is the printable start of a response body.
func bodyStart(body []byte) string {
	return strings.TrimSpace(printable.Truncate(string(body), 100))
}

// traceKeys describes the keys in the responses.
func (h *host) traceKeys(responses []addressResponse) []TraceStep {
	var steps []TraceStep
	for _, w := range responses {
		if w.page.Status != 200 || w.page.Cause != "" {
			continue
		}
		id, values := keyFault(w.page.Body, w.page.Length, h.Token)
		text := fmt.Sprintf("the key: the token and a thumbprint, %d bytes", w.page.Length)
		if id != "" {
			text = findings.New(id, values).Message
		}
		steps = append(steps, newStep("solver", w.addr.String(), id == "", 0, "%s", text))
	}
	return steps
}

// letsEncryptStep predicts the result of Let's Encrypt (boulder, va/http.go). It
// connects to IPv6 first and to IPv4 only if that connection fails, requires 200 and
// fewer than 128 bytes, and trims trailing white space.
func (h *host) letsEncryptStep(responses []addressResponse) TraceStep {
	const step = "lets-encrypt"
	var tried []addressResponse // one address of each family
	for _, v6 := range []bool{true, false} {
		if i := slices.IndexFunc(responses, func(w addressResponse) bool { return w.addr.Addr().Is6() == v6 }); i >= 0 {
			tried = append(tried, responses[i])
		}
	}
	i := slices.IndexFunc(tried, func(w addressResponse) bool { return w.page.Connected > 0 })
	if i < 0 {
		return newStep(step, "", false, 0, "it would reject the challenge: no address accepts connections")
	}
	w := tried[i]
	key := bytes.TrimRight(w.page.Body, " \t\r\n")
	switch {
	case w.page.Cause != "":
		return newStep(step, w.addr.String(), false, 0, "it would reject the challenge: %s", describeFetch(w.page))
	case pageFault(w.page) == findings.RouteRedirectsHTTPS:
		return newStep(step, w.addr.String(), false, 0, "it would follow the redirect to %q, where nothing serves the challenge", w.page.Location)
	case w.page.Status != 200:
		return newStep(step, w.addr.String(), false, 0, "it would reject the challenge: status %d", w.page.Status)
	case w.page.Length > maxKeyLength:
		return newStep(step, w.addr.String(), false, 0, "it would reject the challenge: %d bytes, and it reads %d", w.page.Length, maxKeyLength)
	case !keyPattern(h.Token).Match(key):
		return newStep(step, w.addr.String(), false, 0, "it would reject the challenge: not the key of this token")
	default:
		return newStep(step, w.addr.String(), true, 0, "it would accept the challenge if the thumbprint is that of the account")
	}
}

// certManagerStep predicts the result of cert-manager's self check. It uses the first
// connection that succeeds, and compares all bytes.
func (h *host) certManagerStep(responses []addressResponse) TraceStep {
	const step = "cert-manager"
	i := slices.IndexFunc(responses, func(w addressResponse) bool { return w.page.Connected > 0 })
	if i < 0 {
		return newStep(step, "", false, 0, "the self check would fail: no address accepts connections")
	}
	w := responses[i]
	switch {
	case w.page.Cause != "" && pageFault(w.page) != findings.ResponseTruncated:
		return newStep(step, w.addr.String(), false, 0, "the self check would fail: %s", describeFetch(w.page))
	case w.page.Status != 200:
		return newStep(step, w.addr.String(), false, 0, "the self check would fail: status %d", w.page.Status)
	case !keyPattern(h.Token).Match(w.page.Body) || w.page.Length != len(w.page.Body):
		return newStep(step, w.addr.String(), false, 0, "the self check would fail: the response is not exactly the key")
	default:
		return newStep(step, w.addr.String(), true, 0, "the self check would pass if the thumbprint is that of the account")
	}
}

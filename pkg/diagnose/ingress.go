// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ingressResponse is the response of an ingress VIP.
type ingressResponse struct {
	addr netip.AddrPort // of the last request; a redirect may have been followed
	page protocol.FetchResult
}

// ingressResponses waits for the responses of the ingress VIPs, except those of faulty
// VIPs.
func (h *host) ingressResponses(ctx context.Context) []ingressResponse {
	var all []ingressResponse
	for _, vip := range h.vips.Ingress {
		if h.observed.vipFaulty(ctx, vip) {
			continue
		}
		if page, known := h.observed.ingressPages[vip].await(ctx); known {
			at := page.UpstreamAddr
			if at.Addr() != vip { // an address from the child is not trusted
				at = netip.AddrPortFrom(vip, h.config.Upstream.InitialPort())
			}
			all = append(all, ingressResponse{at, page})
		}
	}
	return all
}

// checkIngress checks whether the routers respond at all.
func checkIngress(ctx context.Context, h *host) Result {
	return judgeEachIngress(ctx, h, func(a ingressResponse) ([]findings.Finding, string) {
		g, _ := h.observed.viaProxy.await(ctx)
		fault := connectionFault(a.page)
		switch {
		case fault == "":
			return nil, h.describeIngress(a, g)
		case fault == findings.IngressTLSUntrusted && g.trustUnreadable != nil:
			return nil, fmt.Sprintf("cannot be verified: %v", g.trustUnreadable)
		case fault == findings.IngressTLSName && h.observed.apiName(ctx) == placeholderName:
			return nil, "responds with TLS; its certificate cannot be compared without the API's name (set --name)"
		}
		if f, ok := h.routerUnreachable(a, fault); ok {
			return []findings.Finding{f}, ""
		}
		f := h.attributeToLink(ctx, a.newFinding(fault), a)
		return []findings.Finding{h.attributeToEgress(f, a)}, ""
	})
}

// routerUnreachable is the finding about a MicroShift router that does not accept
// connections.
func (h *host) routerUnreachable(a ingressResponse, fault findings.ID) (findings.Finding, bool) {
	if !h.microShiftState.active || fault != findings.IngressRefused && fault != findings.IngressTimeout && fault != findings.IngressUnreachable {
		return findings.Finding{}, false
	}
	return findings.New(findings.MicroShiftRouterUnreachable, findings.Values{"upstream": a.addr.String(), "how": describeFetch(a.page)}), true
}

// describeIngress describes how a working ingress VIP is reached.
func (h *host) describeIngress(a ingressResponse, g viaProxy) string {
	text := "responds in " + report.Milliseconds(a.page.FirstByte)
	if a.addr.Port() != h.config.Upstream.InitialPort() {
		text += ", after a redirect to https"
	}
	if proxy := g.egressProxy(a.addr); proxy != "" {
		text += ", through the egress proxy " + proxy
	}
	return text
}

// attributeToEgress attributes a finding about an unreachable ingress to an egress
// proxy that is not accepted, if the route to the ingress leads through it.
func (h *host) attributeToEgress(f findings.Finding, a ingressResponse) findings.Finding {
	if h.config.EgressProxy.Upstream != config.EgressAuto || a.page.ViaEgressProxy {
		return f
	}
	spec, err := h.egressSettings()
	if err == nil && len(egress.ProxiedAddresses(h.config, spec, []netip.Addr{a.addr.Addr()}, h.automaticNoProxy())) > 0 {
		f.CausedBy = append(slices.Clone(f.CausedBy), findings.EgressNotReady, findings.EgressCAInvalid)
	}
	return f
}

// checkRoute checks the router's response to a challenge, and its responses to recent
// challenges.
func checkRoute(ctx context.Context, h *host) Result {
	name := h.observed.apiName(ctx)
	if name == placeholderName {
		return skippedResult("the API's name is unknown (set --name)")
	}
	r := judgeEachIngress(ctx, h, func(a ingressResponse) ([]findings.Finding, string) {
		if connectionFault(a.page) != "" {
			return nil, "" // reported by the check of the ingress
		}
		v := a.judgeChallenge(name, h.Token)
		return v.findings, v.text
	})
	if c, ok := h.lastChallenge(h.apiNames(ctx)); ok && h.Token == "" && r.Outcome != Skipped {
		return findingsResult(addChallengeFinding(r.Findings, c), "%s", r.Text)
	}
	return r
}

// connectionFault is the reason for a missing response; empty if there is one. Faults in
// a response belong to the check of the route.
func connectionFault(f protocol.FetchResult) findings.ID {
	switch fault := pageFault(f); fault {
	case findings.ResponseMalformed, findings.ResponseTruncated, findings.ResponseTooLarge:
		return ""
	case findings.IngressPROXYProtocol, findings.EgressLoop:
		return fault
	default:
		if e, _ := findings.Lookup(fault); e.Forwarded() {
			return ""
		}
		return fault
	}
}

func (a ingressResponse) newFinding(fault findings.ID) findings.Finding {
	e, _ := findings.Lookup(fault)
	f := a.page.Failure(e.Cause, a.addr).Finding(a.page.Context)
	if a.page.Location != "" {
		f.Message += fmt.Sprintf(" (its Location is %q)", a.page.Location)
	}
	return f
}

// mergeFinding adds a finding. If another address has the same finding, it adds the
// address to its message.
func mergeFinding(matches []findings.Finding, f findings.Finding, at netip.AddrPort) []findings.Finding {
	i := slices.IndexFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID })
	if i < 0 {
		return append(matches, f)
	}
	matches[i].Message += fmt.Sprintf(" (also %v)", at)
	return matches
}

// judgeEachIngress evaluates all ingress VIPs.
func judgeEachIngress(ctx context.Context, h *host, judge func(ingressResponse) ([]findings.Finding, string)) Result {
	if len(h.vips.Ingress) == 0 {
		return skippedResult("no ingress VIP is known")
	}
	if g, known := h.observed.viaProxy.await(ctx); known && g.err != nil {
		return skippedResult("%v", g.err)
	}
	var findings []findings.Finding
	var texts groupedTexts
	for _, a := range h.ingressResponses(ctx) {
		more, text := judge(a)
		for _, f := range more {
			findings = mergeFinding(findings, f, a.addr)
		}
		if text != "" && len(more) == 0 {
			texts.add(a.addr, "%s", text)
		}
	}
	if len(findings) == 0 && texts.empty() {
		return skippedResult("no ingress VIP could be checked")
	}
	return findingsResult(findings, "%v", &texts)
}

// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/settings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// asked is an ingress VIP that was asked.
type asked struct {
	addr netip.AddrPort // whom it was asked last: a redirect may have been followed
	page prober.FetchResult
}

// askIngress waits for what the ingress VIPs say, but for those that are on no
// host.
func (h *host) askIngress(ctx context.Context) []asked {
	var all []asked
	for _, vip := range h.vips.Ingress {
		if h.seen.troubled(ctx, vip) {
			continue
		}
		if page, known := h.seen.ingress[vip].wait(ctx); known {
			at := page.UpstreamAddr
			if at.Addr() != vip { // whatever the child says
				at = netip.AddrPortFrom(vip, h.config.Upstream.InitialPort())
			}
			all = append(all, asked{at, page})
		}
	}
	return all
}

// checkIngress looks whether the routers answer at all.
func checkIngress(ctx context.Context, h *host) Result {
	return eachIngress(ctx, h, func(a asked) ([]findings.Finding, string) {
		g, _ := h.seen.gate.wait(ctx)
		cause := unanswered(a.page)
		switch {
		case cause == "":
			return nil, h.answers(a, g)
		case cause == upstream.TLSUntrusted && g.hidden != nil:
			return nil, fmt.Sprintf("cannot be verified: %v", g.hidden)
		case cause == upstream.TLSName && h.seen.name(ctx) == noName:
			return nil, "speaks TLS; whether its certificate is for the API's name is not known: give that with --name"
		}
		if f, is := h.routerSilent(a, cause); is {
			return []findings.Finding{f}, ""
		}
		f := h.followsLink(ctx, a.finding(cause), a)
		return []findings.Finding{h.followsEgress(f, a)}, ""
	})
}

// routerSilent is the finding about a MicroShift's router that cannot be connected to,
// where it is to listen.
func (h *host) routerSilent(a asked, cause upstream.Cause) (findings.Finding, bool) {
	if !h.edge.is || cause != upstream.Refused && cause != upstream.ConnectTimeout && cause != upstream.Unreachable {
		return findings.Finding{}, false
	}
	return findings.Find(findings.MicroShiftRouterSilent, "upstream", a.addr.String(), "how", words(a.page)), true
}

// answers says how an ingress VIP is reached that is well.
func (h *host) answers(a asked, g asGate) string {
	text := "answers in " + report.Milliseconds(a.page.FirstByte)
	if a.addr.Port() != h.config.Upstream.InitialPort() {
		text += ", after a redirect to https"
	}
	if proxy := g.through(a.addr); proxy != "" {
		text += ", through the egress proxy " + proxy
	}
	return text
}

// followsEgress has a finding about an ingress that cannot be reached follow from an
// egress proxy that is not accepted, where that one is to lead there.
func (h *host) followsEgress(f findings.Finding, a asked) findings.Finding {
	if h.config.EgressProxy.Upstream != config.EgressAuto || a.page.ViaEgressProxy {
		return f
	}
	spec, err := h.egressSettings()
	if err == nil && len(settings.EgressRoutes(h.config, spec, []netip.Addr{a.addr.Addr()}, h.neverThroughProxy())) > 0 {
		f.Follows = append(slices.Clone(f.Follows), findings.EgressNotReady, findings.EgressCARefused)
	}
	return f
}

// checkRoute looks what the router answers to a challenge, and what it has answered
// to those that were asked for.
func checkRoute(ctx context.Context, h *host) Result {
	name := h.seen.name(ctx)
	if name == noName {
		return skipped("no name of the API is known: give one with --name")
	}
	r := eachIngress(ctx, h, func(a asked) ([]findings.Finding, string) {
		if unanswered(a.page) != "" {
			return nil, "" // the ingress, of which that check speaks
		}
		v := a.judge(name, h.Token)
		return v.findings, v.text
	})
	if c, is := h.lastChallenge(h.apiNames(ctx)); is && h.Token == "" && r.Outcome != Skipped {
		return found(withChallenge(r.Findings, c), "%s", r.Text)
	}
	return r
}

// unanswered is the cause for which an ingress has not answered, empty where it has:
// what is in an answer is the route's.
func unanswered(f prober.FetchResult) upstream.Cause {
	switch cause := causeOf(f); cause {
	case upstream.MalformedAnswer, upstream.AnswerTruncated, upstream.AnswerTooLarge:
		return ""
	case upstream.ProxyProtocolUnexpected, upstream.EgressLoop:
		return cause
	default:
		if cause.IsForwarded() {
			return ""
		}
		return cause
	}
}

func (a asked) finding(cause upstream.Cause) findings.Finding {
	f := a.page.Failure(string(cause), a.addr).Finding(a.page.Context)
	if a.page.Location != "" {
		f.Says += fmt.Sprintf(" (its Location is %q)", a.page.Location)
	}
	return f
}

// alsoAt adds a finding, unless it is one that another address had: then it names
// this one too.
func alsoAt(matches []findings.Finding, f findings.Finding, at netip.AddrPort) []findings.Finding {
	i := slices.IndexFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID })
	if i < 0 {
		return append(matches, f)
	}
	matches[i].Says += fmt.Sprintf("; the same with %v", at)
	return matches
}

// eachIngress judges all ingress VIPs.
func eachIngress(ctx context.Context, h *host, judge func(asked) ([]findings.Finding, string)) Result {
	if len(h.vips.Ingress) == 0 {
		return skipped("no ingress VIP is known")
	}
	if g, known := h.seen.gate.wait(ctx); known && g.err != nil {
		return skipped("%v", g.err)
	}
	var findings []findings.Finding
	var well bundle
	for _, a := range h.askIngress(ctx) {
		more, text := judge(a)
		for _, f := range more {
			findings = alsoAt(findings, f, a.addr)
		}
		if text != "" && len(more) == 0 {
			well.add(a.addr, "%s", text)
		}
	}
	if len(findings) == 0 && well.empty() {
		return skipped("no ingress VIP could be asked")
	}
	return found(findings, "%v", &well)
}

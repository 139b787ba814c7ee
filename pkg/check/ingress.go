// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// asked is an ingress VIP that was asked.
type asked struct {
	addr netip.AddrPort
	page probe.Fetch
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
			all = append(all, asked{netip.AddrPortFrom(vip, h.config.Upstream.Port), page})
		}
	}
	return all
}

// checkIngress looks whether the routers answer at all.
func checkIngress(ctx context.Context, h *host) Result {
	return eachIngress(ctx, h, func(a asked) ([]catalogue.Finding, string) {
		if a.page.Cause == "" || aboutAnswer(a.page.Cause) {
			return nil, "answers in " + status.Milliseconds(a.page.FirstByte)
		}
		return []catalogue.Finding{h.followsLink(ctx, a.finding(upstream.Cause(a.page.Cause)), a)}, ""
	})
}

// checkRoute looks what the router answers to a challenge, and what it has answered
// to those that were asked for.
func checkRoute(ctx context.Context, h *host) Result {
	name := h.seen.name(ctx)
	if name == noName {
		return skipped("no name of the API is known: give one with --name")
	}
	r := eachIngress(ctx, h, func(a asked) ([]catalogue.Finding, string) {
		if a.page.Cause != "" && !aboutAnswer(a.page.Cause) {
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

// aboutAnswer reports whether a cause is about what a router has answered.
func aboutAnswer(cause string) bool {
	switch upstream.Cause(cause) {
	case upstream.MalformedAnswer, upstream.AnswerTruncated, upstream.AnswerTooLarge:
		return true
	default:
		return false
	}
}

func (a asked) finding(cause upstream.Cause) catalogue.Finding {
	e := &upstream.Error{Cause: cause, Addr: a.addr}
	if a.page.Detail != "" {
		e.Err = errors.New(a.page.Detail)
	}
	return e.Finding()
}

// alsoAt adds a finding, unless it is one that another address had: then it names
// this one too.
func alsoAt(findings []catalogue.Finding, f catalogue.Finding, at netip.AddrPort) []catalogue.Finding {
	i := slices.IndexFunc(findings, func(g catalogue.Finding) bool { return g.ID == f.ID })
	if i < 0 {
		return append(findings, f)
	}
	findings[i].Says += fmt.Sprintf("; the same with %v", at)
	return findings
}

// eachIngress judges all ingress VIPs.
func eachIngress(ctx context.Context, h *host, judge func(asked) ([]catalogue.Finding, string)) Result {
	if len(h.vips.Ingress) == 0 {
		return skipped("no ingress VIP is known")
	}
	var findings []catalogue.Finding
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

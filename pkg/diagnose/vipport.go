// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// isProxyResponse reports whether a page is what the front door says to whatever is no
// challenge.
func isProxyResponse(f protocol.FetchResult) bool {
	return f.Status == 400 && string(bytes.TrimSpace(f.Body)) == reqhead.OnlyChallenges
}

// forwardedByProxy reports whether an answer came through a front door, which puts itself
// into Via; not so those that it gives itself.
func forwardedByProxy(f protocol.FetchResult) bool { return strings.Contains(f.Via, "http01-proxyd") }

// vipResponse is what port 80 of an API VIP says to this host.
type vipResponse struct {
	vip  netip.Addr
	page protocol.FetchResult
}

func (d vipResponse) String() string { return netip.AddrPortFrom(d.vip, httpPort).String() }

// vipResponses waits for what the API VIPs say, but for those that are on no host.
func (h *host) vipResponses(ctx context.Context) (open, closed []vipResponse) {
	for _, vip := range h.servedVIPs() {
		if h.observed.vipFaulty(ctx, vip) {
			continue
		}
		page, known := h.observed.vipRoots[vip].await(ctx)
		switch {
		case !known:
		case isProxyResponse(page):
			open = append(open, vipResponse{vip, page})
		default:
			closed = append(closed, vipResponse{vip, page})
		}
	}
	return open, closed
}

func (h *host) holdsVIP(vip netip.Addr) bool { return slices.Contains(h.ownership.Held, vip) }

// reportsServing reports whether the service on this host says that it answers.
func (h *host) reportsServing() bool {
	reason, _ := h.serviceState()
	return reason == report.Serving || reason == report.UpstreamUnreachable
}

// checkSelfCheck looks at the front door as a self check on this host does: through
// the output chains where this host holds the VIP, else over the network.
func checkSelfCheck(ctx context.Context, h *host) Result {
	if len(h.servedVIPs()) == 0 {
		return skippedResult("there is to be no front door on any VIP")
	}
	open, closed := h.vipResponses(ctx)
	var findings []findings.Finding
	var texts groupedTexts
	for _, d := range closed {
		f, is := h.judgeProxyAbsent(d, open)
		if is {
			findings = append(findings, f)
			continue
		}
		texts.add(d, "%s", describeFetch(d.page))
	}
	for _, d := range open {
		f, text := h.judgeProxyPresent(ctx, d)
		findings = append(findings, f...)
		texts.add(d, "%s", text)
	}
	if f, is := h.rejectsNameOnStandby(); is {
		findings = append(findings, f)
	}
	if len(findings) == 0 && len(open) == 0 {
		return skippedResult("no API VIP could be asked")
	}
	return findingsResult(findings, "%v", &texts)
}

// judgeProxyAbsent judges a VIP whose port 80 shows no front door.
func (h *host) judgeProxyAbsent(d vipResponse, open []vipResponse) (findings.Finding, bool) {
	how := describeFetch(d.page)
	switch {
	case h.holdsVIP(d.vip) && h.reportsServing():
		if c, is := h.lastRemoteChallenge(d.vip); is {
			return findings.New(findings.SelfCheckDiffers, "door", d.String(), "how", how,
				"client", c.Client, "status", strconv.Itoa(c.Status), "time", c.Time.Format(time.TimeOnly)), true
		}
		return findings.New(findings.SelfCheckFails, "door", d.String(), "how", how), true
	case len(open) > 0:
		// One family works: whether CAs take the other is for the names to say.
		return findings.Finding{}, false
	}
	f := findings.New(findings.ProxyUnreachable, "door", d.String(), "how", how)
	if !h.holdsVIP(d.vip) {
		f = f.OnOtherHost()
	}
	return f, true
}

// lastRemoteChallenge is the last challenge that came to a VIP lately from another host.
func (h *host) lastRemoteChallenge(vip netip.Addr) (report.RecentChallenge, bool) {
	return h.recentChallenge(func(c report.RecentChallenge) bool {
		client, err := netip.ParseAddrPort(c.Client)
		own := slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == client.Addr() })
		return err == nil && !own && c.VIP == vip.String()
	})
}

// judgeProxyPresent compares what comes through the front door with what the ingress says
// itself; without a token nothing more than the front door is asked for, which
// would count as a challenge.
func (h *host) judgeProxyPresent(ctx context.Context, d vipResponse) ([]findings.Finding, string) {
	if h.rejectsName() && h.holdsVIP(d.vip) {
		return []findings.Finding{h.nameNotAllowed(d.String(), h.APIName)}, ""
	}
	text := "the front door, in " + report.Milliseconds(d.page.Total)
	l := h.observed.challengePages[d.vip]
	if l == nil {
		return nil, text
	}
	through, known := l.await(ctx)
	direct, is := h.directResponse(ctx, d.vip)
	switch {
	case !known || !is || direct.page.Cause != "":
		// Without an answer straight from the ingress there is nothing to compare.
		return nil, text
	case (through.Status == 502 || through.Status == 504) && !forwardedByProxy(through):
		// The front door was met, and says why it has no answer.
		return nil, fmt.Sprintf("%s; to the challenge it answered %d by itself: %q", text, through.Status, printableOnly(bytes.TrimSpace(through.Body)))
	case isProxyResponse(through):
		return []findings.Finding{h.nameNotAllowed(d.String(), h.observed.apiName(ctx))}, ""
	case !sameResponse(through, direct.page):
		f := findings.New(findings.ProxyResponseDiffers, "door", d.String(), "how", describeFetch(through),
			"upstream", direct.addr.String(), "straight", describeFetch(direct.page))
		if !h.holdsVIP(d.vip) {
			f = f.OnOtherHost()
		}
		return []findings.Finding{f}, ""
	default:
		return nil, text + ", and answers as the ingress does"
	}
}

// sameResponse reports whether two pages say the same. Pages for people may differ each
// time.
func sameResponse(a, b protocol.FetchResult) bool {
	return a.Status == b.Status && (a.Status != 200 || strings.HasPrefix(a.ContentType, "text/html") || bytes.Equal(a.Body, b.Body))
}

// directResponse is what an ingress VIP says itself, one of the API VIP's family if there
// is one.
func (h *host) directResponse(ctx context.Context, api netip.Addr) (ingressResponse, bool) {
	all := h.ingressResponses(ctx)
	if len(all) == 0 {
		return ingressResponse{}, false
	}
	i := slices.IndexFunc(all, func(a ingressResponse) bool { return a.addr.Addr().Is4() == api.Is4() })
	return all[max(i, 0)], true
}

// rejectsName reports whether this host's configuration has its front door answer for
// other names than that of --name.
func (h *host) rejectsName() bool {
	return h.APIName != "" && len(h.config.Hosts) > 0 && !slices.Contains(h.config.Hosts, h.APIName)
}

// rejectsNameOnStandby is that on a host without a VIP: nobody is refused there yet.
func (h *host) rejectsNameOnStandby() (findings.Finding, bool) {
	if !h.rejectsName() || len(h.ownership.Held) > 0 {
		return findings.Finding{}, false
	}
	f := h.nameNotAllowed("this host, once a VIP is here,", h.APIName)
	f.Level = findings.Warning
	return f, true
}

func (h *host) nameNotAllowed(door, name string) findings.Finding {
	return findings.New(findings.NameNotAllowed, "door", door, "name", name)
}

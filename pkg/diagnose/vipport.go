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
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// proxyBody is the body of http01-proxyd's response to a request that is not a challenge
// (reqhead.OnlyChallenges).
const proxyBody = "Only /.well-known/acme-challenge/* is allowed"

// isProxyResponse reports whether a response is that of http01-proxyd to a request that
// is not a challenge.
func isProxyResponse(f protocol.FetchResult) bool {
	return f.Status == 400 && string(bytes.TrimSpace(f.Body)) == proxyBody
}

// forwardedByProxy reports whether http01-proxyd forwarded a response. It adds itself
// to Via, except in its own responses.
func forwardedByProxy(f protocol.FetchResult) bool { return strings.Contains(f.Via, "http01-proxyd") }

// vipResponse is the response at port 80 of an API VIP.
type vipResponse struct {
	vip  netip.Addr
	page protocol.FetchResult
}

func (d vipResponse) String() string { return netip.AddrPortFrom(d.vip, httpPort).String() }

// vipResponses waits for the responses of the API VIPs, except those of faulty VIPs.
// open are those of http01-proxyd.
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

// reportsServing reports whether the service on this host reports that it serves.
func (h *host) reportsServing() bool {
	reason, _ := h.serviceState()
	return reason == report.Serving || reason == report.UpstreamUnreachable
}

// checkSelfCheck requests the API VIPs like a self check on this host: through the
// output chains if this host holds the VIP, otherwise over the network.
func checkSelfCheck(ctx context.Context, h *host) Result {
	if len(h.servedVIPs()) == 0 {
		return skippedResult("http01-proxyd serves no VIP")
	}
	open, closed := h.vipResponses(ctx)
	var findings []findings.Finding
	var texts groupedTexts
	for _, d := range closed {
		f, ok := h.judgeProxyAbsent(d, open)
		if ok {
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
	if f, ok := h.rejectsNameOnStandby(); ok {
		findings = append(findings, f)
	}
	if len(findings) == 0 && len(open) == 0 {
		return skippedResult("no API VIP could be checked")
	}
	return findingsResult(findings, "%v", &texts)
}

// judgeProxyAbsent evaluates a VIP where http01-proxyd does not respond.
func (h *host) judgeProxyAbsent(d vipResponse, open []vipResponse) (findings.Finding, bool) {
	how := describeFetch(d.page)
	switch {
	case h.holdsVIP(d.vip) && h.reportsServing():
		if c, ok := h.lastRemoteChallenge(d.vip); ok {
			return findings.New(findings.SelfCheckDiffers, findings.Values{"endpoint": d.String(), "how": how, "client": c.Client, "status": strconv.Itoa(c.Status), "time": c.Time.Format(time.TimeOnly)}), true
		}
		return findings.New(findings.SelfCheckFails, findings.Values{"endpoint": d.String(), "how": how}), true
	case len(open) > 0:
		// One family works. Whether CAs use the other one is part of the DNS check.
		return findings.Finding{}, false
	}
	f := findings.New(findings.ProxyUnreachable, findings.Values{"endpoint": d.String(), "how": how})
	if !h.holdsVIP(d.vip) {
		f = f.OnOtherHost()
	}
	return f, true
}

// lastRemoteChallenge is the last recent challenge of another host at a VIP.
func (h *host) lastRemoteChallenge(vip netip.Addr) (report.RecentChallenge, bool) {
	return h.recentChallenge(func(c report.RecentChallenge) bool {
		client, err := netip.ParseAddrPort(c.Client)
		own := slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == client.Addr() })
		return err == nil && !own && c.VIP == vip.String()
	})
}

// judgeProxyPresent compares the response of the proxy with that of the ingress.
// Without a token it requests no challenge, because that would be counted as one.
func (h *host) judgeProxyPresent(ctx context.Context, d vipResponse) ([]findings.Finding, string) {
	if h.rejectsName() && h.holdsVIP(d.vip) {
		return []findings.Finding{h.nameNotAllowed(d.String(), h.APIName)}, ""
	}
	text := "http01-proxyd responds in " + report.Milliseconds(d.page.Total)
	l := h.observed.challengePages[d.vip]
	if l == nil {
		return nil, text
	}
	through, known := l.await(ctx)
	direct, ok := h.directResponse(ctx, d.vip)
	switch {
	case !known || !ok || direct.page.Cause != "":
		// Without a response of the ingress there is nothing to compare.
		return nil, text
	case (through.Status == 502 || through.Status == 504) && !forwardedByProxy(through):
		// The proxy itself reports why it has no response.
		return nil, fmt.Sprintf("%s; it answered the challenge with its own %d: %q", text, through.Status, bodyStart(through.Body))
	case isProxyResponse(through):
		return []findings.Finding{h.nameNotAllowed(d.String(), h.observed.apiName(ctx))}, ""
	case !sameResponse(through, direct.page):
		f := findings.New(findings.ProxyResponseDiffers, findings.Values{"endpoint": d.String(), "how": describeFetch(through), "upstream": direct.addr.String(), "direct": describeFetch(direct.page)})
		if !h.holdsVIP(d.vip) {
			f = f.OnOtherHost()
		}
		return []findings.Finding{f}, ""
	default:
		return nil, text + ", with the same response as the ingress"
	}
}

// sameResponse reports whether two responses are equal. HTML pages may differ each
// time.
func sameResponse(a, b protocol.FetchResult) bool {
	return a.Status == b.Status && (a.Status != 200 || strings.HasPrefix(a.ContentType, "text/html") || bytes.Equal(a.Body, b.Body))
}

// directResponse is the response of an ingress VIP, preferably in the API VIP's address
// family.
func (h *host) directResponse(ctx context.Context, api netip.Addr) (ingressResponse, bool) {
	all := h.ingressResponses(ctx)
	if len(all) == 0 {
		return ingressResponse{}, false
	}
	i := slices.IndexFunc(all, func(a ingressResponse) bool { return a.addr.Addr().Is4() == api.Is4() })
	return all[max(i, 0)], true
}

// rejectsName reports whether this host's configuration excludes the name of --name.
func (h *host) rejectsName() bool {
	return h.APIName != "" && len(h.config.Hosts) > 0 && !slices.Contains(h.config.Hosts, h.APIName)
}

// rejectsNameOnStandby is the same finding for a host without a VIP, as a warning.
func (h *host) rejectsNameOnStandby() (findings.Finding, bool) {
	if !h.rejectsName() || len(h.ownership.Held) > 0 {
		return findings.Finding{}, false
	}
	f := h.nameNotAllowed("this host (once it holds a VIP)", h.APIName)
	f.Level = findings.Warning
	return f, true
}

func (h *host) nameNotAllowed(endpoint, name string) findings.Finding {
	return findings.New(findings.NameNotAllowed, findings.Values{"endpoint": endpoint, "name": name})
}

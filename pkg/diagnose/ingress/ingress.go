// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Response is the response of an ingress VIP.
type Response struct {
	Addr netip.AddrPort // of the last request, perhaps after a redirect
	Page protocol.FetchResult
}

// NewResponse is the response of an ingress VIP with the router at port.
func NewResponse(vip netip.Addr, port uint16, page protocol.FetchResult) Response {
	at := page.UpstreamAddr
	if at.Addr() != vip { // an address from the child is not trusted
		at = netip.AddrPortFrom(vip, port)
	}
	return Response{at, page}
}

// Ingress is what was observed at the ingress VIPs.
type Ingress struct {
	VIPs      vips.VIPs
	Port      uint16 // of the routers
	Name      string // of the API; empty if it is unknown
	Route     egress.Route
	Responses []Response // without faulty VIPs

	// NeedsEgress are the ingress VIPs to which the configured egress proxy leads.
	NeedsEgress []netip.Addr
}

// Check checks whether the routers respond at all.
func (i Ingress) Check() result.Result {
	return i.judgeEach(func(a Response, all *result.Subjects) {
		fault := response.ConnectionFault(a.Page)
		switch {
		case fault == "":
			all.Pass(a.Addr, "%s", i.describe(a))
		case fault == findings.IngressTLSUntrusted && i.Route.TrustUnreadable != nil:
			all.Skip(a.Addr, "cannot be verified: %v", i.Route.TrustUnreadable)
		case fault == findings.IngressTLSName && i.Name == "":
			all.Skip(a.Addr, "its certificate cannot be compared without the API's name (set --name)")
		case i.VIPs.MicroShift && (fault == findings.IngressRefused || fault == findings.IngressTimeout ||
			fault == findings.IngressUnreachable):
			all.FindAt(findings.New(findings.MicroShiftRouterUnreachable,
				findings.Values{"upstream": a.Addr.String(), "how": response.Describe(a.Page)}), a.Addr)
		default:
			all.FindAt(i.attribute(a.finding(fault, i.Name), a), a.Addr)
		}
	})
}

// describe describes how a working ingress VIP is reached.
func (i Ingress) describe(a Response) string {
	text := "responds in " + report.Milliseconds(a.Page.FirstByte)
	if a.Addr.Port() != i.Port {
		text += ", after a redirect to https"
	}
	if proxy := i.Route.ProxyFor(a.Addr); proxy != "" {
		text += ", through the egress proxy " + proxy
	}
	return text
}

// attribute adds causes to a finding about an unreachable ingress: an egress proxy that is
// not accepted, if the route to the ingress leads through it.
func (i Ingress) attribute(f findings.Finding, a Response) findings.Finding {
	if !a.Page.ViaEgressProxy && slices.Contains(i.NeedsEgress, a.Addr.Addr()) {
		f.CausedBy = append(slices.Clone(f.CausedBy), findings.EgressNotReady, findings.EgressCAInvalid)
	}
	return f
}

// CheckRoute checks the router's response to the challenge of a token, or without one to
// an invented token. In that case it also evaluates the responses to recent challenges:
// those that are not nil.
func (i Ingress) CheckRoute(token string, recent ...*report.RecentChallenge) result.Result {
	if i.Name == "" {
		return result.Skip("the API's name is unknown (set --name)")
	}
	r := i.judgeEach(func(a Response, all *result.Subjects) {
		if response.ConnectionFault(a.Page) != "" {
			return // reported by the check of the ingress
		}
		if f, text := a.judgeChallenge(i.Name, token); text == "" {
			all.FindAt(f, a.Addr)
		} else {
			all.Pass(a.Addr, "%s", text)
		}
	})
	if token != "" || r.Outcome == report.CheckSkipped {
		return r
	}
	for _, last := range recent {
		if last != nil {
			r = result.PassUnless(addChallengeFinding(r.Findings, *last), "%s", r.Text)
		}
	}
	return r
}

func (a Response) finding(fault findings.ID, name string) findings.Finding {
	context := a.Page.Context
	context.Name = name
	f := a.Page.Failure(string(fault), a.Addr).Finding(context)
	if a.Page.Location != "" {
		f.Message += fmt.Sprintf(" (its Location is %q)", a.Page.Location)
	}
	return f
}

// judgeEach evaluates all ingress VIPs.
func (i Ingress) judgeEach(judge func(Response, *result.Subjects)) result.Result {
	switch {
	case len(i.VIPs.Ingress) == 0:
		return result.Nothing("no ingress VIP is known")
	case i.Route.Err != nil:
		return result.Skip("%v", i.Route.Err)
	}
	var all result.Subjects
	for _, a := range i.Responses {
		judge(a, &all)
	}
	return all.Result("no ingress VIP could be checked")
}

// judgeChallenge evaluates a router's response to the challenge of a token, or without
// one, to a challenge that does not exist. Without a finding it returns a text.
func (a Response) judgeChallenge(name, token string) (f findings.Finding, text string) {
	fault := response.Fault(a.Page)
	values := findings.Values{"upstream": a.Addr.String(), "router": a.Addr.String(), "name": name}
	switch {
	case fault != "" && (token != "" || fault != findings.RouteMissing):
		return a.finding(fault, name), ""
	case token == "":
		return a.judgeUnknownToken(values, name)
	case a.Page.Status == 404:
		f = findings.New(findings.TokenUnknown, values)
		if !a.isSolver() {
			f.Message += ". The response does not look like that of cert-manager's solver: " + a.describe()
		}
		return f, ""
	case a.Page.Status != 200:
		return findings.New(findings.ResponseStatus, values.With("how", response.Describe(a.Page))), ""
	}
	if what := response.KeyFault(a.Page.Body, a.Page.Length, token); what != "" {
		return findings.New(findings.ResponseNotKey, values.With("what", what)), ""
	}
	return f, fmt.Sprintf("the key of %d bytes, in %s", a.Page.Length, report.Milliseconds(a.Page.Total))
}

// judgeUnknownToken evaluates the response to a token that does not exist. No route exists for
// it in a router, and a solver returns 404.
func (a Response) judgeUnknownToken(values findings.Values, name string) (f findings.Finding, text string) {
	switch {
	case response.Fault(a.Page) == findings.RouteMissing:
		return f, "no challenge for " + name + " seems to be pending (503, no route); if one is pending, use --token"
	case a.isSolver():
		return f, "a solver for " + name + " responds (404 for an invented token, like cert-manager's)"
	default:
		return findings.New(findings.NameAlreadyServed, values.With("how", a.describe())), ""
	}
}

// isSolver reports whether a 404 looks like the response of cert-manager's solver
// (pkg/issuer/acme/http/solver), which comes from Go's net/http (NotFound).
func (a Response) isSolver() bool {
	return a.Page.Status == 404 && a.Page.Server == "" && a.Page.ContentType == "text/plain; charset=utf-8" &&
		string(a.Page.Body) == "404 page not found\n"
}

// describe describes a response that is not one to a challenge.
func (a Response) describe() string {
	return response.Describe(a.Page) + ", " + response.DescribeBody(a.Page.Body, a.Page.Length, "")
}

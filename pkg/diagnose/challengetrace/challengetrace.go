// SPDX-License-Identifier: Apache-2.0

package challengetrace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/dns"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/selfcheck"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Answer is the response that a validator gets at one address.
type Answer struct {
	Addr netip.AddrPort
	Page protocol.FetchResult
	Lost bool // there was no time left for the request
}

// Trace is one challenge as a validator sees it: the addresses of the name, and the
// proxy's response at each. Ingress are the responses to compare with, and Log shows
// whether cert-manager requests the challenge.
type Trace struct {
	Token   string
	DNS     []result.Step
	Answers []Answer
	Ingress []ingress.Response
	Log     selfcheck.Log
}

// Steps describes the responses, and the requests of cert-manager.
func (t Trace) Steps() []result.Step {
	steps := slices.Clone(t.DNS)
	var behind []result.Step // what the proxy got of the ingress
	for _, a := range t.Answers {
		to := a.Addr.String()
		if a.Lost {
			steps = append(steps, result.NewStep("connect", to, false, 0, "no time left for the request"))
			continue
		}
		steps = append(steps, result.NewStep("connect", to, a.Page.Connected > 0, a.Page.Connected, "%s",
			describeConnection(a.Page)))
		if a.Page.Connected == 0 {
			continue
		}
		good := response.IsCompleteOK(a.Page) && (response.IsForwarded(a.Page) || t.keyFault(a) == "")
		passedOn := response.IsForwarded(a.Page) || response.IsUpstreamReport(a.Page)
		steps = append(steps, result.NewStep("proxy", to, good || passedOn, a.Page.Total, "%s%s",
			describeResponse(a.Page), describeResponder(a.Page)))
		if !good && passedOn {
			behind = append(behind, result.NewStep("ingress", "", false, a.Page.Total, "%s, through the proxy at %s",
				describeResponse(a.Page), to))
		}
	}
	for _, a := range t.Ingress {
		ok := response.IsCompleteOK(a.Page)
		if steps = append(steps, result.NewStep("ingress", a.Addr.String(), ok, a.Page.Total, "%s",
			describeResponse(a.Page))); !ok {
			behind = nil // this step shows the same, with the address of the ingress
		}
	}
	steps = append(steps, behind...)
	t.Answers = slices.DeleteFunc(slices.Clone(t.Answers), func(a Answer) bool { return a.Lost })
	return slices.Concat(steps, t.keys(), t.certManager())
}

// Names lists the addresses of a name in the order in which a CA uses them. Without
// addresses in the DNS, the trace continues with the VIPs.
func Names(name string, answers dns.Answers, vips []netip.Addr) (steps []result.Step, addresses []netip.Addr) {
	i := slices.IndexFunc(answers.Views, func(v dns.View) bool { return v.Name == name && v.IsAnswer() })
	if i < 0 {
		why := cmp.Or(answers.Reason, "no server responds")
		return []result.Step{result.NewStep("dns", name, false, dns.LookupTimeout, "%s; continuing with the VIPs", why)}, vips
	}
	v := answers.Views[i]
	for _, family := range []int{1, 0} {
		record := v.Records[family]
		ok := v.Err == nil && record.Failure == ""
		text := fmt.Sprintf("%s, from %v", cmp.Or(result.JoinAddresses(record.Addresses), "none"), v.Server.Addr.Addr())
		switch {
		case v.Err != nil:
			text = v.Err.Error()
		case !ok:
			text = fmt.Sprintf("%v %s", v.Server.Addr.Addr(), strings.TrimSuffix(dns.FailureText(record.Failure), ","))
		}
		steps = append(steps, result.NewStep("dns", name+" "+dns.RecordType(family == 1), ok, v.Took, "%s", text))
		addresses = append(addresses, record.Addresses...)
	}
	if len(addresses) == 0 {
		steps[0].Outcome, steps[1].Outcome = report.CheckProblem, report.CheckProblem
		return steps, vips
	}
	return steps, addresses
}

func describeConnection(f protocol.FetchResult) string {
	if f.Connected > 0 {
		return "connected"
	}
	return response.Describe(f)
}

func describeResponse(f protocol.FetchResult) string {
	if f.Cause != "" {
		return response.Describe(f)
	}
	return fmt.Sprintf("%s, %d bytes", response.Describe(f), f.Length)
}

// describeResponder reports whether the response came through http01-proxyd, which adds
// a Via field.
func describeResponder(f protocol.FetchResult) string {
	switch {
	case f.Status == 0:
		return ""
	case response.IsFromProxy(f):
		return " (from the proxy itself: the name or the path is not allowed)"
	case response.IsForwarded(f):
		return " (forwarded from the ingress)"
	case response.IsUpstreamReport(f):
		return fmt.Sprintf(" (%s)", response.Start(f.Body))
	case f.Status == 502 || f.Status == 504:
		return fmt.Sprintf(" (its body begins with %q)", response.Start(f.Body))
	default:
		return " (not from http01-proxyd)"
	}
}

func (t Trace) keyFault(a Answer) string {
	return response.KeyFault(a.Page.Body, a.Page.Length, t.Token)
}

// keys describes the keys in the responses.
func (t Trace) keys() []result.Step {
	var steps []result.Step
	for _, w := range t.Answers {
		if w.Page.Status != 200 || w.Page.Cause != "" {
			continue
		}
		what := t.keyFault(w)
		text := fmt.Sprintf("the key: the token and a thumbprint, %d bytes", w.Page.Length)
		if what != "" {
			text = "not the key of this token: it is " + what
		}
		steps = append(steps, result.NewStep("solver", w.Addr.String(), what == "", 0, "%s", text))
	}
	return steps
}

// certManager is what the challenge log shows of cert-manager's requests.
func (t Trace) certManager() []result.Step {
	const step = "cert-manager"
	if c := t.Log.Request; c != nil {
		at := c.Time.Format(time.TimeOnly)
		return []result.Step{result.NewStep(step, "", true, 0, "at %s, %s got status %d", at, c.ClientKind, c.Status)}
	}
	if t.Log.Missing() {
		watched := t.Log.Watched.Round(time.Second)
		return []result.Step{
			result.NewStep(step, "", false, 0, "neither cert-manager nor a CA has requested it within %v", watched),
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Status is the report of a host as a document.
type Status struct {
	report.Header
	report.Report

	Problems []findings.Finding `json:"problems"` // what is wrong now, problems before warnings
}

// Document returns the report with its header and its problems.
func Document(r report.Report, now time.Time) Status {
	return Status{report.NewHeader("Status"), r, append([]findings.Finding{}, Problems(r, now)...)}
}

// Problems returns what is wrong at a time, problems before warnings. Each cause is listed once,
// even if several parts of the report show it.
func Problems(r report.Report, now time.Time) []findings.Finding {
	switch c := r.Condition(); {
	case len(r.Conditions) == 0: // no report
		return nil
	case !isHost(c):
		return ofState(r)
	}
	var all []findings.Finding
	add := func(found ...findings.Finding) {
		for _, f := range found {
			// An exchange that fails has one cause, whichever request showed it.
			if !slices.ContainsFunc(all, func(other findings.Finding) bool {
				return other.ID == f.ID && (other.Message == f.Message || findings.IsCause(string(f.ID)))
			}) {
				all = append(all, f)
			}
		}
	}
	add(ofState(r)...)
	if r.OwnRequests != "" {
		f := withText(findings.LocalTrafficBlocked, r.OwnRequests, nil)
		f.Commands = []string{"http01-proxyd check"} // names the rule
		add(f)
	}
	for _, u := range r.Upstreams {
		add(Upstream(u)...)
	}
	add(Trust(r.Trust)...)
	add(Egress(r.EgressProxy)...)
	for _, c := range DistinctCertificates(r.Certificates) {
		add(HostCertificate(r, c, now)...)
	}
	add(SelfTests(r.SelfTests...)...)
	add(VIPTests(r.VIPTests...)...)
	for _, c := range slices.Backward(r.Challenges.Recent) {
		if c.IsValidation(r.Challenges.Recent) && c.Status != 0 && c.Status != http404 {
			add(Challenge(r, c, now)...)
			break
		}
	}
	add(Metrics(r.Metrics)...)
	all = slices.DeleteFunc(all, func(f findings.Finding) bool {
		return f.ID == findings.SelfTestFailed && slices.ContainsFunc(all, func(other findings.Finding) bool {
			return slices.Contains(f.CausedBy, other.ID)
		})
	})
	slices.SortStableFunc(all, func(a, b findings.Finding) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// OfState reports whether a finding is about the state of the service, and not about a part of it.
func OfState(r report.Report, f findings.Finding) bool {
	return slices.ContainsFunc(ofState(r), func(s findings.Finding) bool { return s.ID == f.ID && s.Message == f.Message })
}

// isElsewhere reports whether the host does not hold the VIP, which is an address with or without a port.
func isElsewhere(r report.Report, vip string) bool {
	if endpoint, err := netip.ParseAddrPort(vip); err == nil {
		vip = endpoint.Addr().String()
	}
	return slices.ContainsFunc(r.VIPs, func(v report.VIP) bool {
		return v.State != report.VIPHeld && v.Address.String() == vip
	})
}

// isHost reports whether a service has answered with this condition.
func isHost(c report.Condition) bool { return c.Status == "True" || c.Status == "False" }

// ofState returns the finding about a service that is not ready.
func ofState(r report.Report) []findings.Finding {
	c := r.Condition()
	switch {
	case c.Status == "True":
		return nil
	case c.Reason == report.NotRunning:
		return []findings.Finding{findings.New(findings.ServiceNotRunning, findings.Values{"state": c.Message})}
	case !isHost(c):
		return []findings.Finding{findings.New(findings.ServiceUnresponsive, findings.Values{"state": c.Message})}
	}
	if c.Reason == report.InvalidConfig {
		f := findings.New(findings.ConfigInvalid, findings.Values{"path": r.Config.Path, "fix": "Correct the file."})
		f.Message = c.Message
		return []findings.Finding{f}
	}
	f := withText(stateID(r), c.Message, nil)
	if f.ID == findings.ServiceNotReady {
		f.Message = string(c.Reason) + ": " + c.Message
	}
	if c.Reason.Expected() {
		f.Level = findings.Warning
	}
	return []findings.Finding{f}
}

// stateID returns the finding that a state is about. Several findings lead to most states, and
// `check` distinguishes these.
func stateID(r report.Report) findings.ID {
	switch r.Condition().Reason {
	case report.Disabled:
		return findings.Disabled
	case report.ExternalLoadBalancer:
		return findings.VIPsUserManaged
	case report.PortInUse:
		return findings.PortInUse
	case report.UpstreamUnreachable:
		for _, u := range r.Upstreams {
			if findings.IsCause(u.Cause) {
				return findings.ID(u.Cause)
			}
		}
	default:
	}
	return findings.ServiceNotReady
}

// maxChallengeAge is how long a failed challenge is a fault if no other one follows: cert-manager has
// tried again by then.
const maxChallengeAge = 32 * time.Hour

// Challenge returns why a CA does not accept the response to a challenge. Anybody can request an invented
// token, for which a router has no route: such a response is no fault. Neither is 404, which cert-manager
// gets until its solver is ready. If the VIP has moved, another host has the challenges that follow.
func Challenge(r report.Report, c report.RecentChallenge, now time.Time) []findings.Finding {
	if now.Sub(c.Time) > maxChallengeAge || isElsewhere(r, c.VIP) || !c.IsValidation(r.Challenges.Recent) ||
		c.Cause == "" && c.Status == http404 {
		return nil
	}
	return Response(c)
}

// Response returns why a CA does not accept the response to a challenge, which is 404 if its token is unknown.
func Response(c report.RecentChallenge) []findings.Finding {
	values := valuesOf(c.Upstream, c.Host)
	switch {
	case c.Cause != "":
		return []findings.Finding{ofCause(c.Cause, findings.ResponseStatus, c.Detail, values)}
	case c.Status == http200, c.Status == 0:
		return nil
	case c.Status == http404:
		return []findings.Finding{findings.New(findings.TokenUnknown, values)}
	}
	return []findings.Finding{findings.New(findings.ResponseStatus, values.With("how", strconv.Itoa(c.Status)))}
}

// The controller links no package of HTTP.
const (
	http200  = 200
	http404  = 404
	httpPort = 80
)

// Upstream returns why an ingress address does not accept connections.
func Upstream(u report.Upstream) []findings.Finding {
	if u.Error == "" {
		return nil
	}
	values := valuesOf(u.Address.String(), "")
	return []findings.Finding{ofCause(u.Cause, findings.IngressUnreachable, u.Error, values)}
}

// valuesOf returns the values of an exchange with a router, which may be unknown.
func valuesOf(upstream, name string) findings.Values {
	values := findings.Values{"upstream": cmp.Or(upstream, "the service"), "name": name, "error": "no details"}
	if router, err := netip.ParseAddrPort(upstream); err == nil {
		values["router"], values["address"] = upstream, router.Addr().String()
	}
	return values
}

// ofCause returns the finding with the ID of a cause, or with another one if the cause is unknown.
func ofCause(cause string, other findings.ID, text string, values findings.Values) findings.Finding {
	id := findings.ID(cause)
	if _, known := findings.Lookup(id); !known {
		id = other
	}
	return withText(id, text, values)
}

// withText returns a finding with the text of a report: the message, perhaps with the remediation behind it.
func withText(id findings.ID, text string, values findings.Values) findings.Finding {
	f := findings.New(id, values)
	message, more, _ := strings.Cut(text, ". "+f.Remediation)
	f.Message, f.Remediation = cmp.Or(message, f.Message), f.Remediation+more
	if strings.Contains(f.Remediation, "{") {
		f.Remediation = "Run http01-proxyd check, which prints the remediation."
	}
	return f
}

// SelfTests returns a finding for each cause of failed self-tests. The fault itself explains it, if it is
// found too.
func SelfTests(tests ...report.SelfTest) (all []findings.Finding) {
	byCause := map[string][]report.SelfTest{}
	for _, t := range tests {
		if !t.OK {
			byCause[t.Cause] = append(byCause[t.Cause], t)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		var endpoints, errors []string
		var last time.Time
		for _, t := range byCause[cause] {
			endpoints = append(endpoints, netip.AddrPortFrom(t.VIP, httpPort).String())
			if !slices.Contains(errors, t.Error) {
				errors = append(errors, t.Error)
			}
			if t.Checked.After(last) {
				last = t.Checked
			}
		}
		f := findings.New(findings.SelfTestFailed, findings.Values{
			"endpoint": strings.Join(endpoints, " and "), "time": last.Format(time.TimeOnly), "cause": cause,
			"error": strings.Join(errors, "; "),
		})
		e, _ := findings.Lookup(findings.ID(cause))
		f.CausedBy = append([]findings.ID{e.ID}, e.CausedBy...)
		all = append(all, f)
	}
	return all
}

// VIPTests returns what tests of VIPs that another host holds have shown. VIPs of both families with the
// same fault are one finding.
func VIPTests(all ...report.VIPTest) (found []findings.Finding) {
	for i, t := range all {
		same := func(o report.VIPTest) bool { return o.Cause == t.Cause && o.Result == t.Result }
		if _, known := findings.Lookup(findings.ID(t.Cause)); !known || slices.ContainsFunc(all[:i], same) {
			continue
		}
		var vips []string
		var each []findings.Values
		for _, o := range all[i:] {
			if same(o) {
				vips = append(vips, o.VIP.String())
				each = append(each, findings.Values{"vip": o.VIP.String()})
			}
		}
		values := findings.Values{"vip": strings.Join(vips, " and "), "how": t.Result.Describe()}
		found = append(found, findings.New(findings.ID(t.Cause), values).WithCommands(each...))
	}
	return found
}

// Metrics returns why metrics are not served.
func Metrics(m report.Metrics) []findings.Finding {
	if m.Error == "" {
		return nil
	}
	return []findings.Finding{
		withText(findings.MetricsPortInUse, "Metrics are not served on "+m.Address+": "+m.Error, nil),
	}
}

// Problem returns a finding of a host in the form of a report.
func Problem(f findings.Finding) report.ClusterProblem {
	return report.ClusterProblem{
		ID: string(f.ID), Level: string(f.Level), Message: f.Message, Remediation: f.Remediation, Commands: f.Commands,
	}
}

// Trust returns why a CA of the ingress may not be trusted.
func Trust(t report.Trust) []findings.Finding {
	values := findings.Values{"path": t.Path, "problem": t.Error, "certificates": t.SummarizeIgnored()}
	switch {
	case t.Kind == "", t.Kind == report.TrustUnused:
	case t.Kind == report.TrustNone:
		return []findings.Finding{findings.New(findings.NoTrustedCA, values)}
	case t.Error != "":
		return []findings.Finding{findings.New(findings.CABundleInvalid, values)}
	case t.IgnoredTotal > 0 && t.Kind == report.TrustAdmin:
		return []findings.Finding{findings.New(findings.CABundlePartial, values)}
	}
	return nil
}

// Egress returns why the egress proxy is not used as it is configured. It is a warning if no request uses it.
func Egress(e report.EgressProxy) []findings.Finding {
	values := findings.Values{
		"path": cmp.Or(e.InvalidFile, "The configured file"), "error": strings.TrimPrefix(e.Message, e.InvalidFile+": "), "source": e.Spec.Source,
		"proxy": cmp.Or(e.Spec.HTTPProxy, e.Spec.HTTPSProxy), "current": "Until then, no egress proxy is used",
	}
	var f findings.Finding
	switch {
	case e.Upstream == "":
		return nil
	case e.InvalidInput == report.EgressInputTrustedCA:
		f = findings.New(findings.EgressCAInvalid, values)
	case e.InvalidInput != "":
		f = findings.New(findings.ProxyFileInvalid, values)
	case e.Pending && e.Message != "":
		if !e.Accepted.IsDirect() {
			values["current"] = "Until then, the previous one stays in use"
		}
		f = findings.New(findings.EgressNotReady, values)
	case slices.ContainsFunc(e.Routes, func(r report.EgressRoute) bool { return r.Error != "" }):
		_, message := e.Evaluate()
		f = withText(findings.EgressUnreachable, message, nil)
	default:
		return nil
	}
	if e.Upstream == "never" {
		f.Level = findings.Warning
	}
	return []findings.Finding{f}
}

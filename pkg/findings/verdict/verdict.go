// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
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
	for _, u := range r.Upstreams {
		if u.Error != "" {
			add(OfCause(u.Cause, findings.IngressUnreachable, u.Error))
		}
	}
	add(Trust(r.Trust)...)
	add(Egress(r.EgressProxy)...)
	for _, c := range DistinctCertificates(r.Certificates) {
		add(HostCertificate(r, c, now)...)
	}
	for _, t := range r.SelfTests {
		if !t.OK {
			add(OfCause(t.Cause, findings.SelfTestFailed, t.Error))
		}
	}
	add(VIPTests(r.VIPTests...)...)
	for _, c := range slices.Backward(r.Challenges.Recent) {
		if c.IsValidation(r.Challenges.Recent) && c.Status != 0 && c.Status != http404 {
			add(Challenge(r, c, now)...)
			break
		}
	}
	add(Metrics(r.Metrics)...)
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

// isHost reports whether the condition is that of a service that has answered.
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
	f := withMessage(stateID(r), c.Message)
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
	switch {
	case now.Sub(c.Time) > maxChallengeAge, isElsewhere(r, c.VIP), !c.IsValidation(r.Challenges.Recent):
		return nil
	case c.Cause != "":
		return []findings.Finding{OfCause(c.Cause, findings.ResponseStatus, c.Detail)}
	case c.Status == http200, c.Status == http404, c.Status == 0:
		return nil
	case c.Detail != "":
		return []findings.Finding{withMessage(findings.ResponseStatus, c.Detail)}
	}
	return []findings.Finding{findings.New(findings.ResponseStatus, findings.Values{
		"upstream": cmp.Or(c.Upstream, "the service"), "how": strconv.Itoa(c.Status), "name": c.Host,
	})}
}

// The statuses that are no fault. The controller links no package of HTTP.
const (
	http200 = 200
	http404 = 404
)

// OfCause returns the finding with the ID of a cause, or with another one if the cause is unknown.
// The message may end with the remediation.
func OfCause(cause string, other findings.ID, message string) findings.Finding {
	id := findings.ID(cause)
	if _, known := findings.Lookup(id); !known {
		id = other
	}
	return withMessage(id, message)
}

// withMessage returns a finding with the text of a report: the message, and perhaps the remediation.
func withMessage(id findings.ID, text string) findings.Finding {
	f := findings.New(id, nil)
	begin, _, incomplete := strings.Cut(f.Remediation, "{")
	at := strings.LastIndex(text, ". "+begin)
	switch {
	case begin != "" && at >= 0:
		f.Message, f.Remediation = text[:at], text[at+len(". "):]
	case incomplete:
		f.Message, f.Remediation = text, "Run http01-proxyd check, which prints the remediation."
	default:
		f.Message = text
	}
	return f
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
		for _, o := range all[i:] {
			if same(o) {
				vips = append(vips, o.VIP.String())
			}
		}
		values := findings.Values{"vip": strings.Join(vips, " and "), "how": t.Result.Describe()}
		found = append(found, findings.New(findings.ID(t.Cause), values))
	}
	return found
}

// Metrics returns why metrics are not served.
func Metrics(m report.Metrics) []findings.Finding {
	if m.Error == "" {
		return nil
	}
	return []findings.Finding{
		withMessage(findings.MetricsPortInUse, "Metrics are not served on "+m.Address+": "+m.Error),
	}
}

// Trust returns why a CA of the ingress may not be trusted.
func Trust(t report.Trust) []findings.Finding {
	reason, message := t.Evaluate()
	switch {
	case t.Kind == "":
	case reason == report.NothingTrusted:
		return []findings.Finding{withMessage(findings.NoTrustedCA, message)}
	case reason == report.TrustRejected, reason == report.NoUsableCertificate:
		return []findings.Finding{withMessage(findings.CABundleInvalid, message)}
	case t.IgnoredTotal > 0 && t.Kind == report.TrustAdmin:
		return []findings.Finding{withMessage(findings.CABundlePartial,
			message+"; ignored: "+report.Count(t.IgnoredTotal, "certificate"))}
	}
	return nil
}

// Egress returns why the egress proxy is not used as it is configured.
func Egress(e report.EgressProxy) []findings.Finding {
	if e.Upstream == "" {
		return nil
	}
	switch reason, message := e.Evaluate(); {
	case reason == report.EgressNotReady:
		return []findings.Finding{withMessage(findings.EgressNotReady, message)}
	case reason == report.EgressInvalid && e.InvalidInput == report.EgressInputTrustedCA:
		return []findings.Finding{withMessage(findings.EgressCAInvalid, message)}
	case reason == report.EgressInvalid:
		return []findings.Finding{withMessage(findings.ProxyFileInvalid, message)}
	case slices.ContainsFunc(e.Routes, func(r report.EgressRoute) bool { return r.Error != "" }):
		return []findings.Finding{withMessage(findings.EgressUnreachable, message)}
	}
	return nil
}

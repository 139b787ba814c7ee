// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// problems are the findings of a check and of the status, the most serious first. A
// finding of the status is left out if the check has found the same fault.
func (h Host) problems(now time.Time) parts {
	var all []report.ClusterProblem
	found := map[findings.ID]bool{}
	add := func(f findings.Finding) {
		all = append(all, report.ClusterProblem{
			ID: string(f.ID), Level: string(f.Level), Message: f.Message, Remediation: f.Remediation, Commands: f.Commands,
		})
	}
	if h.Check != nil {
		for _, c := range h.Check.Checks {
			for _, f := range c.Findings {
				add(f)
				found[f.ID] = true
			}
		}
	}
	for _, f := range statusFindings(h.Status, asOf(h.Status, now)) {
		if f.ID == "" || !found[f.ID] {
			add(f)
		}
	}
	slices.SortStableFunc(all, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	if len(all) == 0 && h.Error != "" {
		return nil
	}
	return parts{problemList(all)}
}

// statusFindings returns the faults that the status shows without further checks.
func statusFindings(r report.Report, now time.Time) []findings.Finding {
	var all []findings.Finding
	for i, c := range r.Conditions {
		if c.Status == "True" {
			continue
		}
		f := findings.New(findings.ServiceNotReady, findings.Values{"state": string(c.Reason) + ": " + c.Message})
		if i > 0 {
			f = findings.Finding{
				ID: "", Level: findings.Problem, Message: c.Type + " is " + string(c.Reason) + ": " + c.Message,
				Remediation: "See journalctl -u http01-proxyd.",
			}
		}
		all = append(all, f)
	}
	for _, c := range r.Certificates {
		if c.Error == "" {
			all = append(all, result.CertificateFindings(c, now)...)
			continue
		}
		values := findings.Values{"server": c.Address, "error": c.Error}
		all = append(all, findings.New(findings.APIServerUnreachable, values))
	}
	for _, t := range r.SelfTests {
		if !t.OK {
			all = append(all, findings.New(findings.SelfTestFailed, findings.Values{
				"endpoint": netip.AddrPortFrom(t.VIP, 80).String(), "time": clock(t.Checked) + " UTC",
				"cause": t.Cause, "error": t.Error,
			}))
		}
	}
	for _, t := range r.VIPTests {
		if t.Cause != "" {
			values := findings.Values{"vip": t.VIP.String(), "how": t.Result.Describe()}
			all = append(all, findings.New(findings.ID(t.Cause), values))
		}
	}
	if n := len(r.Challenges.Recent); n > 0 && r.Challenges.Recent[n-1].Cause != "" {
		all = append(all, challengeFinding(r.Challenges.Recent[n-1]))
	}
	return all
}

// challengeFinding is the failure of the last challenge. An earlier one is a problem no
// longer; the counts contain it.
func challengeFinding(c report.RecentChallenge) findings.Finding {
	f := findings.Finding{Level: findings.Problem}
	if findings.IsCause(c.Cause) {
		f = findings.New(findings.ID(c.Cause), nil)
	}
	message, same := strings.CutSuffix(c.Detail, ". "+f.Remediation)
	if !same {
		f.Remediation = "" // the detail contains it
	}
	f.Message = message + " (" + clock(c.Time) + " UTC)"
	return f
}

// problemList shows problems with their remediation.
func problemList(all []report.ClusterProblem) part {
	if len(all) == 0 {
		return el("p", mark(section.Good, "No problems in the status"))
	}
	list := el("ul", class("problems"))
	for _, p := range all {
		l := section.OfProblem(p.Level)
		head := el("p", class("problem-head"), mark(l, p.Level))
		if p.ID != "" {
			el("span", class("id"), text(p.ID)).addTo(&head)
		}
		if len(p.Nodes) > 0 {
			muted("on " + strings.Join(p.Nodes, ", ")).addTo(&head)
		}
		item := el("li", class(string(l)), head, el("p", text(p.Message)))
		if p.Remediation != "" {
			el("p", class("fix"), el("b", text("Fix: ")), text(p.Remediation)).addTo(&item)
		}
		for _, command := range p.Commands {
			el("pre", text(command)).addTo(&item)
		}
		item.addTo(&list)
	}
	return list
}

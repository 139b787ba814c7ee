// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// problem is one problem of the cluster. Its texts contain {vip} for the VIPs that it is about.
type problem struct {
	id             findings.ID
	level, message string
	remediation    string // sentences
	hosts          []HostReport
	vips           []netip.Addr
}

func newProblem(id findings.ID, level, message, remediation string, hosts []HostReport) problem {
	return problem{id, level, message, remediation, hosts, nil}
}

func heldTwice(holders []HostReport) problem {
	e, _ := findings.Lookup(findings.VIPDuplicate)
	return newProblem(e.ID, report.LevelProblem, "{vip} is held by "+joinNames(holders), e.Remediation, holders)
}

func notHeld(vip netip.Addr, hosts []HostReport) problem {
	manager := "keepalived"
	if isBGP(hosts, vip) {
		manager = "kube-vip and the API server"
	}
	return newProblem(findings.VIPUnassigned, report.LevelProblem, "no host holds {vip}",
		fmt.Sprintf("Check %s on %s.", manager, joinNames(hosts)), hosts)
}

// maybeHeld is the problem that no host reports that it holds a VIP. A host that does
// not know its VIPs, or has not reported, may hold it.
func maybeHeld(hosts []HostReport) problem {
	return newProblem(findings.VIPUnassigned, report.LevelWarning, "no host reports that it holds {vip}",
		fmt.Sprintf("Solve the problems of %s first: a VIP may be there.", joinNames(hosts)), hosts)
}

func notReady(h HostReport) problem {
	return newProblem(findings.ServiceNotReady, report.LevelProblem,
		fmt.Sprintf("%s is not ready (%s): %s", h.Name, cmp.Or(h.Condition.Reason, report.NotReachable),
			cmp.Or(h.Problem, h.Condition.Message)),
		fmt.Sprintf("Run http01-proxyd check on %s.", h.Name), []HostReport{h})
}

func notReporting(h HostReport) problem {
	if h.Condition.Reason == report.NotRunning {
		f := findings.New(findings.ServiceNotRunning, findings.Values{"state": h.Condition.Message})
		return newProblem(f.ID, string(f.Level), h.Name+": the service is not running", f.Remediation, []HostReport{h})
	}
	return newProblem(findings.NodeNotReporting, report.LevelWarning, h.problemText(),
		cmp.Or(h.Remediation, fmt.Sprintf("Check the service on %s.", h.Name)), []HostReport{h})
}

// incomplete is the problem that the end of a host's report is missing.
func incomplete(h HostReport) problem {
	return newProblem(findings.NodeNotReporting, report.LevelWarning, h.Name+": "+h.Note,
		fmt.Sprintf("Run http01-proxyd status on %s. A service of this version has no such report.", h.Name), []HostReport{h})
}

// forVIP adds the problem for a VIP. If another VIP, such as one of the other address family, has the same
// problem, they are one.
func forVIP(all []problem, vip netip.Addr, p problem) []problem {
	i := slices.IndexFunc(all, func(q problem) bool {
		return q.id == p.id && q.message == p.message && q.remediation == p.remediation && len(q.vips) > 0
	})
	if i < 0 {
		i, all = len(all), append(all, p)
	}
	all[i].vips = append(slices.Clone(all[i].vips), vip)
	return all
}

// text returns the message with the VIPs.
func (p problem) text() string {
	names := make([]string, len(p.vips))
	for i, vip := range p.vips {
		names[i] = vip.String()
	}
	conjunction := " and "
	if strings.HasPrefix(p.message, "no host") {
		conjunction = " or "
	}
	message := p.message
	if len(names) > 1 {
		message = strings.ReplaceAll(message, "{vip} is ", "{vip} are ")
	}
	return strings.ReplaceAll(message, "{vip}", strings.Join(names, conjunction))
}

// differences are the problems between hosts that each work.
func differences(hosts []HostReport) (all []problem) {
	answering := filter(hosts, HostReport.answered)
	if groups := groupBy(answering, func(h HostReport) string { return h.Version }); len(groups) > 1 {
		all = append(all, difference(findings.VersionsDiffer, findings.Values{"versions": formatGroups(groups)}, answering))
	}
	// A host that is not ready may not have read its VIPs yet.
	ready := filter(answering, HostReport.ready)
	if groups := groupBy(ready, vipList); len(groups) > 1 {
		all = append(all, difference(findings.VIPsDiffer, findings.Values{"vips": formatGroups(groups)}, ready))
	}
	return all
}

func difference(id findings.ID, values findings.Values, hosts []HostReport) problem {
	f := findings.New(id, values)
	return newProblem(f.ID, string(f.Level), strings.ToLower(f.Message[:1])+f.Message[1:], f.Remediation, hosts)
}

// maxClockSkew is the difference between the clocks of two machines that is not
// reported.
const maxClockSkew = time.Minute

// clockProblems names the hosts whose clock is ahead. That does not change the
// condition: their own state is correct, whenever it was reported.
func clockProblems(hosts []HostReport, now time.Time) (all []problem) {
	for _, h := range hosts {
		if ahead := h.Time.Sub(now).Round(time.Second); ahead > maxClockSkew {
			all = append(all, newProblem(findings.ClockOffset, report.LevelWarning,
				fmt.Sprintf("the report of %s is from %s: its clock is ahead by %v, or the clock of this machine is behind", h.Name,
					h.Time.UTC().Format(time.RFC3339), ahead),
				"Check the time servers of both.", []HostReport{h}))
		}
	}
	return all
}

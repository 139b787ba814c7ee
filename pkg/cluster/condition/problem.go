// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// problem is one problem of the cluster.
type problem struct {
	id, level, message string
	remediation        string // a sentence
	hosts              []HostReport
}

// vipText stands for VIPs in the message of a problem. Both families have one problem, if only the VIP
// differs.
const vipText = "{vip}"

// vipProblems collects the problems of VIPs, by their texts.
type vipProblems struct {
	all  []problem
	vips [][]string // of each problem
}

func (c *vipProblems) add(vip netip.Addr, found ...problem) {
	for _, p := range found {
		i := slices.IndexFunc(c.all, func(o problem) bool {
			return o.id == p.id && o.message == p.message && o.remediation == p.remediation &&
				slices.Equal(names(o.hosts), names(p.hosts))
		})
		if i < 0 {
			i = len(c.all)
			c.all, c.vips = append(c.all, p), append(c.vips, nil)
		}
		c.vips[i] = append(c.vips[i], vip.String())
	}
}

// problems returns the problems with the VIPs in their messages.
func (c *vipProblems) problems() []problem {
	for i, vips := range c.vips {
		c.all[i].message = strings.ReplaceAll(c.all[i].message, vipText, strings.Join(vips, " and "))
	}
	return c.all
}

func heldTwice(holders []HostReport) problem {
	return problem{
		string(findings.VIPDuplicate), report.LevelProblem, vipText + " is held by " + joinNames(holders),
		"Check that the keepalived processes reach each other, or query the hosts again if the VIP has just moved.", holders,
	}
}

func notHeld(vip netip.Addr, hosts []HostReport) problem {
	manager := "keepalived"
	if isBGP(hosts, vip) {
		manager = "kube-vip and the API server"
	}
	return problem{
		string(findings.VIPUnassigned), report.LevelProblem, "no host holds " + vipText,
		fmt.Sprintf("Check %s on %s.", manager, joinNames(hosts)), hosts,
	}
}

// maybeHeld is the problem that no host reports that it holds a VIP. A host that does
// not know its VIPs, or has not reported, may hold it.
func maybeHeld(hosts []HostReport) problem {
	return problem{
		string(findings.VIPUnassigned), report.LevelWarning, "no host reports that it holds " + vipText,
		fmt.Sprintf("Solve the problems of %s first: a VIP may be there.", joinNames(hosts)), hosts,
	}
}

func notReady(h HostReport) problem {
	return problem{
		string(findings.ServiceNotReady), report.LevelProblem,
		fmt.Sprintf("%s is not ready (%s): %s", h.Name, cmp.Or(h.Condition.Reason, report.NotReachable),
			cmp.Or(h.Problem, h.Condition.Message)),
		fmt.Sprintf("Run http01-proxyd check on %s.", h.Name),
		[]HostReport{h},
	}
}

func notReporting(h HostReport) problem {
	if h.Condition.Reason == report.NotRunning {
		f := findings.New(findings.ServiceNotRunning, findings.Values{"state": h.Condition.Message})
		return problem{string(f.ID), string(f.Level), h.Name + ": the service is not running", f.Remediation, []HostReport{h}}
	}
	return problem{
		string(findings.NodeNotReporting), report.LevelProblem, h.problemText(),
		cmp.Or(h.Remediation, fmt.Sprintf("Check the service on %s: systemctl status http01-proxyd.", h.Name)),
		[]HostReport{h},
	}
}

// commands returns the commands for a workstation that show the problem, or fix it.
func (p problem) commands() []string {
	command := map[string]string{
		string(findings.ServiceNotRunning): "systemctl start http01-proxyd",
		string(findings.NodeNotReporting):  "http01-proxyd status",
	}[p.id]
	if command == "" {
		return nil
	}
	return []string{check.CommandOn(p.hosts[0].Name, command)}
}

// incomplete is the problem that the end of a host's report is missing.
func incomplete(h HostReport) problem {
	return problem{
		string(findings.NodeNotReporting), report.LevelWarning, h.Name + ": " + h.Note,
		fmt.Sprintf("Run http01-proxyd status on %s. A service of this version has no such report.", h.Name),
		[]HostReport{h},
	}
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
	return problem{string(f.ID), string(f.Level), strings.ToLower(f.Message[:1]) + f.Message[1:], f.Remediation, hosts}
}

// maxClockSkew is the difference between the clocks of two machines that is not
// reported.
const maxClockSkew = time.Minute

// clockProblems names the hosts whose clock is ahead. That does not change the
// condition: their own state is correct, whenever it was reported.
func clockProblems(hosts []HostReport, now time.Time) (all []problem) {
	for _, h := range hosts {
		if ahead := h.Time.Sub(now).Round(time.Second); ahead > maxClockSkew {
			all = append(all, problem{
				string(findings.ClockOffset), report.LevelWarning,
				fmt.Sprintf("the report of %s is from %s: its clock is ahead by %v, or the clock of this machine is behind", h.Name,
					h.Time.UTC().Format(time.RFC3339), ahead),
				"Check the time servers of both: chronyc tracking.",
				[]HostReport{h},
			})
		}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ClusterStatus combines the reports of all hosts, which were just queried, into the
// status of the cluster.
func ClusterStatus(hosts []HostReport, now time.Time) report.ClusterStatus {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b HostReport) int { return cmp.Compare(a.Name, b.Name) })
	problems := clusterProblems(hosts, now)
	s := report.ClusterStatus{
		Header:    report.NewHeader("ClusterStatus"),
		Time:      now.UTC().Truncate(time.Second),
		Condition: newCondition(hosts, problems, now),
		VIPs:      []report.ClusterVIP{},
		Nodes:     make([]report.NodeStatus, len(hosts)),
		Problems:  []report.ClusterProblem{},
	}
	for _, vip := range requiredVIPs(hosts) {
		s.VIPs = append(s.VIPs, clusterVIP(hosts, vip))
	}
	for i, h := range hosts {
		s.Nodes[i] = h.nodeStatus(now)
	}
	for _, p := range problems {
		s.Problems = append(s.Problems, report.ClusterProblem{
			ID: string(p.id), Level: p.level, Message: p.text(), Remediation: p.remediation, Nodes: names(p.hosts),
			Commands: check.CommandsFor(p.id, names(p.hosts), p.vips),
		})
	}
	s.Problems = append(s.Problems, hostProblems(hosts, now)...)
	return s
}

// maxHostProblems bounds the problems that nodes report. A hostile node invents many.
const maxHostProblems = 200

// hostProblems are the problems in the reports of hosts. The same problem of several hosts is one. The state of
// a host, and its tests of VIPs, are among the problems of the cluster.
func hostProblems(hosts []HostReport, now time.Time) (all []report.ClusterProblem) {
	for _, h := range filter(hosts, HostReport.answered) {
		at := now
		if !h.Time.IsZero() { // the clock of the host may differ
			at = h.Time
		}
		for _, f := range verdict.Problems(h.Report, at) {
			if f.ID == findings.VIPUnreachableFromHere || f.ID == findings.VIPTwoHosts || verdict.OfState(h.Report, f) {
				continue
			}
			same := func(p report.ClusterProblem) bool { return p.ID == string(f.ID) && p.Message == f.Message }
			i := slices.IndexFunc(all, same)
			switch {
			case i < 0 && len(all) == maxHostProblems:
				continue
			case i < 0:
				i, all = len(all), append(all, h.problemOf(f))
			}
			all[i].Nodes = append(all[i].Nodes, h.Name)
		}
	}
	return all
}

// problemOf returns a finding of a host as a problem of the cluster, with the commands for a workstation.
func (h HostReport) problemOf(f findings.Finding) report.ClusterProblem {
	p := verdict.Problem(f)
	p.Commands = check.Commands(h.Name, f.ID, f.Commands)
	return p
}

func clusterVIP(hosts []HostReport, vip netip.Addr) report.ClusterVIP {
	holders := vipHolders(hosts, vip)
	since := holders
	if len(holders) == 0 && len(mayHold(hosts, vip)) == 0 {
		since = filter(hosts, func(h HostReport) bool { return h.vip(vip).State != "" })
	}
	management := ""
	if isBGP(hosts, vip) {
		management = report.ManagementBGP
	}
	v := report.ClusterVIP{
		Management: management, Address: vip, Family: printable.Family(vip), Holders: names(holders),
		Since: latest(since, func(h HostReport) time.Time { return h.vipSince(vip) }),
	}
	addTests(&v, hosts)
	return v
}

func (h HostReport) nodeStatus(now time.Time) report.NodeStatus {
	s := report.NodeStatus{
		Name: h.Name, Reported: h.answered(), Version: h.Version, Condition: h.Condition, StateSince: h.StateSince,
		VIPs: h.VIPs,
	}
	if s.VIPs == nil {
		s.VIPs = []report.VIP{}
	}
	if s.Condition.Status == "" {
		s.Condition = report.ServiceUnreachable(now, errors.New(h.Problem)).Condition()
	}
	return s
}

// mayHold returns the hosts that may hold a VIP that they do not report.
func mayHold(hosts []HostReport, vip netip.Addr) []HostReport {
	return filter(hosts, func(h HostReport) bool { return !h.answered() || !h.ready() && h.vip(vip).State == "" })
}

// clusterProblems returns all problems: first the problems of VIPs, then the problems of hosts.
func clusterProblems(hosts []HostReport, now time.Time) (all []problem) {
	for _, vip := range requiredVIPs(hosts) {
		switch holders := vipHolders(hosts, vip); {
		case len(holders) > 1 && isBGP(hosts, vip):
		case len(holders) > 1:
			all = forVIP(all, vip, heldTwice(holders))
		case len(holders) == 0 && len(mayHold(hosts, vip)) > 0:
			all = forVIP(all, vip, maybeHeld(mayHold(hosts, vip)))
		case len(holders) == 0:
			all = forVIP(all, vip, notHeld(vip, hosts))
		}
		for _, p := range testProblems(hosts, vip) {
			all = forVIP(all, vip, p)
		}
	}
	for _, h := range hosts {
		switch {
		case !h.answered():
			all = append(all, notReporting(h))
		case !h.ready():
			all = append(all, notReady(h))
		}
		if h.Note != "" {
			all = append(all, incomplete(h))
		}
	}
	return slices.Concat(all, differences(hosts), clockProblems(hosts, now))
}

func names(hosts []HostReport) []string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.Name
	}
	return all
}

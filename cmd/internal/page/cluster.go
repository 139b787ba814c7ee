// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ForCluster returns the page of a cluster: its status, and a section for each of the
// hosts, which have the names of the status's nodes.
func ForCluster(s report.ClusterStatus, hosts []Host, now time.Time) []byte {
	all := &sections{heading: "h2"}
	all.all = append(all.all, clusterState(s), clusterTiles(s, hosts, now))
	all.addClusterProblems(s.Problems)
	all.addHolders(s, hosts, now)
	all.addNodes(s, hosts, now)
	main := el("main", all.all)
	for i, h := range hosts {
		id := fmt.Sprintf("node-%d", i)
		el("section", class("host"), attr("id", id), el("h2", class("host-name"), text(h.Name)), h.sections("h3", id, now)).addTo(&main)
	}
	const title = "http01-proxyd cluster status"
	return document(title, parts{
		el("header", class("top"),
			el("p", class("product"), text(title)),
			el("h1", text(fmt.Sprintf("Cluster with %d control-plane nodes", len(s.Nodes)))),
			el("p", class("muted"), text("Created "+clock(now)+" UTC"))),
		main,
	})
}

func clusterState(s report.ClusterStatus) element {
	line := fmt.Sprintf("%s is %s for the cluster", s.Condition.Type, s.Condition.Status)
	if !s.Condition.LastTransitionTime.IsZero() {
		line += " since " + clock(s.Condition.LastTransitionTime) + " UTC"
	}
	line += ". Nodes queried " + clock(s.Time) + " UTC."
	l := conditionLevel(s.Condition)
	return el("section", class("state "+string(l)),
		el("p", class("headline"), mark(l, string(s.Condition.Reason))),
		el("p", class("message"), text(s.Condition.Message)),
		el("p", class("muted"), text(line)))
}

func clusterTiles(s report.ClusterStatus, hosts []Host, now time.Time) element {
	ready, held, heldLabel := 0, 0, "API VIPs held by one node"
	for _, n := range s.Nodes {
		if n.Condition.Status == "True" {
			ready++
		}
	}
	for _, v := range s.VIPs {
		if v.Healthy() {
			held++
		}
		if v.Management == report.ManagementBGP {
			heldLabel = "API VIPs held"
		}
	}
	total := report.Report{Time: s.Time}
	for _, h := range hosts {
		total.Challenges.Total += h.Status.Challenges.Total
		total.Traffic.Requests = append(total.Traffic.Requests, h.Status.Traffic.Requests...)
		total.Challenges.Recent = append(total.Challenges.Recent, h.Status.Challenges.Recent...)
		total.Certificates = append(total.Certificates, h.Status.Certificates...)
	}
	slices.SortStableFunc(total.Challenges.Recent, func(a, b report.RecentChallenge) int { return a.Time.Compare(b.Time) })
	return tileList(
		tile{"Nodes ready", fmt.Sprintf("%d of %d", ready, len(s.Nodes)), "", problemUnless(ready == len(s.Nodes))},
		tile{heldLabel, fmt.Sprintf("%d of %d", held, len(s.VIPs)), "", problemUnless(held == len(s.VIPs))},
		forwardedTile(total), lastTile(total, now), certificateTile(total, now))
}

func problemUnless(ok bool) level {
	if ok {
		return neutral
	}
	return bad
}

func (s *sections) addClusterProblems(all []report.ClusterProblem) {
	list := make([]listedProblem, 0, len(all))
	for _, p := range all {
		list = append(list, listedProblem{
			Finding: findings.Finding{ID: findings.ID(p.ID), Level: findings.Level(p.Level), Message: p.Message, Remediation: p.Remediation, Commands: p.Commands},
			nodes:   strings.Join(p.Nodes, ", "),
		})
	}
	if len(list) == 0 {
		s.add("Problems", parts{el("p", class("empty"), mark(good, "No problems in the reports of the nodes"))})
		return
	}
	s.add("Problems", parts{problemList(list)})
}

// addHolders shows which node holds which VIP, now and in the past.
func (s *sections) addHolders(status report.ClusterStatus, hosts []Host, now time.Time) {
	rows := make([]row, 0, len(status.VIPs))
	for _, v := range status.VIPs {
		held := mark(good, strings.Join(v.Holders, ", "))
		switch {
		case len(v.Holders) == 0:
			held = mark(bad, "no node")
		case !v.Healthy():
			held = mark(bad, strings.Join(v.Holders, " and "))
		}
		since := part(text("–"))
		if !v.Since.IsZero() {
			since = parts{moment(v.Since), muted(" " + report.Age(status.Time.Sub(v.Since)))}
		}
		reached := neutral
		switch {
		case len(v.UnreachableFrom) > 0:
			reached = bad
		case len(v.ReachableFrom) > 0:
			reached = good
		}
		rows = append(rows, row{code(v.Address.String()), text(v.Family), held, since, mark(reached, v.DescribeTests(status.Time))})
	}
	contents := parts{}
	if len(rows) > 0 {
		contents = append(contents, table("API VIPs and the nodes that hold them now",
			[]column{{title: "API VIP"}, {title: "Family"}, {title: "Held by"}, {title: "Since (UTC)"}, {title: "Port 80"}}, rows))
	}
	var lanes []lane
	w := window{status.Time, status.Time}
	for _, h := range hosts {
		if h.Error != "" {
			continue
		}
		of := observed(h.Status, now)
		w = w.include(of.begin)
		if of.end.After(w.end) {
			w.end = of.end
		}
		for _, l := range vipLanes(h.Status, now) {
			l.host = h.Name
			lanes = append(lanes, l)
		}
	}
	slices.SortStableFunc(lanes, func(a, b lane) int { return cmp.Compare(a.name, b.name) })
	if len(lanes) > 0 {
		contents = append(contents, timeline("cluster", lanes, w), legend(vipKinds()...))
	}
	s.add("Holders of the API VIPs", contents)
}

func (s *sections) addNodes(status report.ClusterStatus, hosts []Host, now time.Time) {
	rows := make([]row, 0, len(status.Nodes))
	for _, n := range status.Nodes {
		var held []string
		for _, v := range n.VIPs {
			if v.State == report.VIPHeld {
				held = append(held, v.Address.String())
			}
		}
		name, forwarded, last := part(text(n.Name)), part(text("–")), "–"
		if i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == n.Name }); i >= 0 {
			name = el("a", attr("href", fmt.Sprintf("#node-%d", i)), text(n.Name))
			if hosts[i].Error == "" {
				forwarded = number(hosts[i].Status.Challenges.Total)
				t := lastTile(hosts[i].Status, now)
				last = t.value + ", " + t.note
			}
		}
		rows = append(rows, row{
			name, mark(conditionLevel(n.Condition), string(n.Condition.Reason)), code(cmp.Or(strings.Join(held, ", "), "–")),
			forwarded, text(last), code(cmp.Or(n.Version, "–")),
		})
	}
	s.add("Nodes", parts{table("State of the service on each node",
		[]column{{title: "Node"}, {title: "State"}, {title: "API VIPs held"}, {title: "Challenges", numeric: true}, {title: "Last challenge"}, {title: "Version"}}, rows)})
}

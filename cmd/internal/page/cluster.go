// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ForCluster returns the page of a cluster: its status, and a section for each of the
// hosts, which have the names of the status's nodes.
func ForCluster(s report.ClusterStatus, hosts []Host, now time.Time) []byte {
	ids := anchorsOf(s.Problems)
	state := section.ClusterState(s)
	all := parts{
		stateCard(state.Level, state.Headline, s.Condition.Message, stateLine(state, s.Time, "")),
		problemCard(s.Problems, ids),
	}
	for i, one := range section.Cluster(s, true) {
		shown := contents(one, ids)
		if lanes, w := clusterLanes(s, hosts, now); i == 0 && len(lanes) > 0 {
			shown = append(shown, timeline("cluster", lanes, w), legend())
		}
		all = append(all, card("h2", one.Title, shown))
	}
	links := el("p", class("top"), text("The nodes:"))
	for i, h := range hosts {
		id := fmt.Sprintf("node-%d", i)
		parts{text(" "), el("a", attr("href", "#"+id), text(h.Name))}.addTo(&links)
		about := slices.DeleteFunc(slices.Clone(s.Problems),
			func(p report.ClusterProblem) bool { return !slices.Contains(p.Nodes, h.Name) })
		own := section.HostState(h.Status, asOf(h.Status, now), about...)
		var names []string
		for _, p := range own.Problems {
			names = append(names, "["+p.ID+"]")
		}
		var notes []part
		if len(names) > 0 {
			notes = append(notes, ids.link("Problems: "+strings.Join(names, ", ")))
		}
		all = append(all, el("section", class("host"), attr("id", id), el("h2", class("host-name"), text(h.Name)),
			h.state(own, now, notes...), h.cards("h3", id, ids, now)))
	}
	heading := clusterHeading(clusterName(hosts), len(s.Nodes))
	return document("http01-proxyd cluster status", heading, now, append(parts{links}, all...))
}

// clusterHeading is the name of a cluster, or the number of its nodes if the name is empty.
func clusterHeading(name string, nodes int) string {
	return cmp.Or(name, fmt.Sprintf("Cluster with %d control-plane nodes", nodes))
}

// apiPrefix begins the name of the API of a cluster.
const apiPrefix = "api."

// clusterName returns the name of the cluster, by the names for which its nodes accept challenges. It
// is what most nodes report, because a compromised node can report another one. It is empty if no
// node knows the name of the API.
func clusterName(hosts []Host) string {
	votes := map[string]int{}
	for _, h := range hosts {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(h.Status.AcceptedHosts.Names))) {
			if cluster, is := strings.CutPrefix(name, apiPrefix); is {
				votes[cluster]++
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b))
	})
	return append(names, "")[0]
}

// clusterLanes are the VIPs on each host that reported, and the time that they cover.
func clusterLanes(s report.ClusterStatus, hosts []Host, now time.Time) ([]lane, window) {
	var lanes []lane
	w := window{s.Time, s.Time}
	for _, h := range hosts {
		if h.Error != "" {
			continue
		}
		of := observed(h.Status, now)
		w = w.include(of.begin).include(of.end)
		for _, l := range vipLanes(h.Status, now) {
			l.host = h.Name
			lanes = append(lanes, l)
		}
	}
	slices.SortStableFunc(lanes, func(a, b lane) int { return cmp.Compare(a.name, b.name) })
	return lanes, w
}

// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ForCluster returns the page of a cluster: its status, and a section for each of the
// hosts, which have the names of the status's nodes.
func ForCluster(s report.ClusterStatus, hosts []Host, now time.Time) []byte {
	all := parts{conditionCard(s.Condition, s.Time, ""), card("h2", "Problems", problemList(s.Problems))}
	for i, one := range section.Cluster(s, true) {
		shown := contents(one)
		if lanes, w := clusterLanes(s, hosts, now); i == 0 && len(lanes) > 0 {
			shown = append(shown, timeline("cluster", lanes, w), legend())
		}
		all = append(all, card("h2", one.Title, shown))
	}
	links := el("p", class("top"), text("The nodes:"))
	for i, h := range hosts {
		id := fmt.Sprintf("node-%d", i)
		parts{text(" "), el("a", attr("href", "#"+id), text(h.Name))}.addTo(&links)
		all = append(all, el("section", class("host"), attr("id", id),
			el("h2", class("host-name"), text(h.Name)), h.cards("h3", id, now)))
	}
	const title = "http01-proxyd cluster status"
	heading := fmt.Sprintf("Cluster with %d control-plane nodes", len(s.Nodes))
	return document(title, title, heading, now, append(parts{links}, all...))
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

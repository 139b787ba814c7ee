// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The reasons that no single host can report.
const (
	VIPHeldTwice report.Reason = "VIPHeldTwice" // two hosts hold one VIP
	VIPNotHeld   report.Reason = "VIPNotHeld"   // no host holds a VIP
)

// newCondition combines the reports of all hosts into one condition. It is True when every API
// VIP is held and served by exactly one host, or when none is required. Where BGP announces a
// VIP, several hosts hold it at once, and each of them must serve it. The transition time is
// the latest one of the hosts, never after now, and now if it is unknown. The message lists the
// problems of the cluster, and ends with the number of hosts that reported, because nothing is
// known about the others.
func newCondition(hosts []HostReport, problems []problem, now time.Time) report.Condition {
	v := evaluate(hosts)
	parts := v.message
	for _, p := range problems {
		parts = append(parts, p.text())
	}
	switch reports, total := len(filter(hosts, HostReport.answered)), len(hosts); {
	case reports < total:
		parts = append(parts, fmt.Sprintf("%d of %d hosts have reported", reports, total))
	case total == 1:
		parts = append(parts, "1 host has reported")
	case total > 1:
		parts = append(parts, fmt.Sprintf("%d hosts have reported", total))
	}
	at := v.since
	if at.IsZero() {
		at = latest(hosts, HostReport.since)
	}
	if at.IsZero() || at.After(now) { // the clock of a host may be ahead
		at = now
	}
	return report.Condition{
		Type: report.ConditionType, Status: v.status, Reason: v.reason,
		Message:            printable.Truncate(strings.Join(parts, "; "), report.MaxMessage),
		LastTransitionTime: at.UTC().Truncate(time.Second),
	}
}

// result is a condition before its time is determined.
type result struct {
	status  string
	reason  report.Reason
	message []string  // beside the problems
	since   time.Time // time of the change in the hosts' reports; zero if unknown
}

func evaluate(hosts []HostReport) result {
	silent := filter(hosts, func(h HostReport) bool { return !h.answered() })
	vips := requiredVIPs(hosts)
	for _, vip := range vips {
		if holders := vipHolders(hosts, vip); len(holders) > 1 && !isBGP(hosts, vip) {
			at := latest(holders, func(h HostReport) time.Time { return h.vipSince(vip) })
			return result{"False", VIPHeldTwice, nil, at}
		}
	}
	for _, vip := range vips {
		// Routers send a part of the connections to each holder.
		failing := filter(vipHolders(hosts, vip), func(h HostReport) bool { return !h.ready() })
		if len(failing) > 0 {
			worst := mostSevere(failing)
			v := hostFailure(worst)
			v.since = later(v.since, worst.vipSince(vip))
			return v
		}
	}
	failing := filter(hosts, func(h HostReport) bool { return h.answered() && !h.ready() })
	if len(vips) == 0 && len(failing) > 0 {
		return hostFailure(mostSevere(failing))
	}
	for _, vip := range vips {
		// A host that does not know a VIP may hold it nevertheless. With BGP, routers then
		// send it a part of the connections.
		blind := filter(failing, func(h HostReport) bool { return h.vip(vip).State == "" })
		isHeld := len(vipHolders(hosts, vip)) > 0
		if len(blind) > 0 && (!isHeld || isBGP(hosts, vip)) {
			return hostFailure(mostSevere(blind))
		}
		if isHeld {
			continue
		}
		if len(silent) == 0 {
			// The VIP was released when the last of them had lost it.
			at := latest(hosts, func(h HostReport) time.Time { return h.vipSince(vip) })
			return result{"False", VIPNotHeld, nil, at}
		}
	}
	if len(silent) > 0 {
		reason := report.NotReachable
		if !slices.ContainsFunc(silent, func(h HostReport) bool { return h.Condition.Reason != report.NotRunning }) {
			reason = report.NotRunning
		}
		return result{"Unknown", reason, nil, latest(silent, HostReport.since)}
	}
	if len(vips) == 0 {
		return result{"True", report.NotRequired, []string{hosts[0].Condition.Message}, latest(hosts, HostReport.since)}
	}
	return allServed(hosts, vips)
}

// hostFailure returns the result for the state of one host.
func hostFailure(h HostReport) result {
	return result{"False", h.Condition.Reason, nil, h.since()}
}

// allServed returns the result when every VIP is held, and each holder is ready.
func allServed(hosts []HostReport, vips []netip.Addr) result {
	v := result{status: "True", reason: report.Serving}
	for _, vip := range vips {
		holders := vipHolders(hosts, vip)
		v.message = append(v.message, fmt.Sprintf("%v is held and served by %s", vip, joinNames(holders)))
		v.since = later(v.since, latest(holders, func(h HostReport) time.Time { return later(h.since(), h.vipSince(vip)) }))
	}
	return v
}

// requiredVIPs returns the sorted API VIPs that must be held according to any host.
func requiredVIPs(hosts []HostReport) []netip.Addr {
	found := make(map[netip.Addr]bool)
	for _, h := range hosts {
		for _, v := range h.VIPs {
			if v.State != report.VIPNotRequired {
				found[v.Address] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), netip.Addr.Compare)
}

func vipHolders(hosts []HostReport, vip netip.Addr) []HostReport {
	return filter(hosts, func(h HostReport) bool { return h.answered() && h.vip(vip).State == report.VIPHeld })
}

// isBGP reports whether several hosts can hold a VIP at once, according to any of them.
func isBGP(hosts []HostReport, vip netip.Addr) bool {
	return slices.ContainsFunc(hosts, func(h HostReport) bool { return h.vip(vip).Management == report.ManagementBGP })
}

// mostSevere returns the host whose problem should be solved first: problems that need
// an administrator come before those that resolve automatically. Among equals it is the
// first by name.
func mostSevere(hosts []HostReport) HostReport {
	bySeverity := []report.Reason{
		report.InvalidConfig, report.NftablesUnavailable, report.PortInUse, report.NoVIPs, report.UpstreamUnreachable,
		report.ProxyUnavailable, report.ExternalLoadBalancer, report.Disabled, report.Starting,
	}
	// An unknown reason of a newer version comes first.
	return slices.MinFunc(hosts, func(a, b HostReport) int {
		return cmp.Compare(slices.Index(bySeverity, a.Condition.Reason), slices.Index(bySeverity, b.Condition.Reason))
	})
}

func vipList(h HostReport) string {
	all := make([]string, 0, len(h.VIPs))
	for _, v := range h.VIPs {
		name := v.Address.String()
		if v.Management != "" {
			name += " by " + v.Management
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(all, " "), "none")
}

func groupBy(hosts []HostReport, key func(HostReport) string) map[string][]HostReport {
	groups := make(map[string][]HostReport)
	for _, h := range hosts {
		groups[key(h)] = append(groups[key(h)], h)
	}
	return groups
}

func formatGroups(groups map[string][]HostReport) string {
	all := make([]string, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, cmp.Or(key, "none")+" on "+joinNames(groups[key]))
	}
	return strings.Join(all, ", ")
}

func latest(hosts []HostReport, when func(HostReport) time.Time) (at time.Time) {
	for _, h := range hosts {
		at = later(at, when(h))
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func filter(hosts []HostReport, keep func(HostReport) bool) (kept []HostReport) {
	for _, h := range hosts {
		if keep(h) {
			kept = append(kept, h)
		}
	}
	return kept
}

func joinNames(hosts []HostReport) string {
	all := names(hosts)
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

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

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The reasons that no single host can give.
const (
	VIPHeldTwice report.Reason = "VIPHeldTwice" // two hosts hold one VIP
	VIPNotHeld   report.Reason = "VIPNotHeld"   // none does
)

// Expected is what is asked of the reports; the zero value: nothing.
type Expected struct {
	Count  int           // of the hosts that there are
	Names  []string      // theirs
	MaxAge time.Duration // of a report
}

// Fold makes one condition of the reports of all hosts: True when every API VIP is
// held and served by exactly one host, or none is required. A host that is expected
// and has no report has not answered, and neither has one with a report that is older
// than asked. previous is what an earlier run has given, or nil. The transition is
// never after now, and is now if nothing tells when it was.
func Fold(hosts []Host, expected Expected, previous *report.Condition, now time.Time) report.Condition {
	hosts = dated(hosts, expected.MaxAge, now)
	reports := len(filter(hosts, Host.answers))
	missing := expected.missing(hosts)
	total := max(len(hosts)+len(missing), expected.Count)
	hosts = slices.SortedFunc(slices.Values(slices.Concat(hosts, missing)), func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	v := judge(hosts)
	c := report.Condition{Type: report.ConditionType, Status: v.status, Reason: v.reason}
	c.Message = shorten(strings.Join(slices.Concat(v.message, remarks(hosts, v.named), clocks(hosts, now), said(reports, total)), "; "))
	c.LastTransitionTime = since(v, hosts, previous, now)
	return c
}

// missing are the hosts without a report; of those that are counted the names are
// not known, and one stands for all.
func (e Expected) missing(hosts []Host) (all []Host) {
	const problem = "there is no report"
	for _, name := range e.Names {
		if !slices.ContainsFunc(hosts, func(h Host) bool { return h.Name == name }) {
			all = append(all, Host{Name: name, Problem: problem})
		}
	}
	switch more := e.Count - len(hosts); {
	case more == 1:
		all = append(all, Host{Name: "another host", Problem: problem})
	case more > 1:
		all = append(all, Host{Name: fmt.Sprintf("%d other hosts", more), Problem: problem})
	}
	return all
}

// said tells of how many hosts the condition is: of those that nobody has asked it
// knows nothing.
func said(reports, total int) []string {
	switch {
	case total == 0:
		return nil
	case reports < total:
		return []string{fmt.Sprintf("%d of %d hosts have reported", reports, total)}
	case total == 1:
		return []string{"1 host has reported"}
	}
	return []string{fmt.Sprintf("%d hosts have reported", total)}
}

// verdict is a condition in the making.
type verdict struct {
	status  string
	reason  report.Reason
	message []string
	at      time.Time // since when it is so, as the hosts tell; zero if they do not
	named   []Host    // of whose own state the message tells already
}

func judge(hosts []Host) verdict {
	if len(hosts) == 0 {
		return verdict{"Unknown", report.NotReachable, []string{"there is no report of any host"}, time.Time{}, nil}
	}
	silent := filter(hosts, func(h Host) bool { return !h.answers() })
	vips := required(hosts)
	for _, vip := range vips {
		if holders := holding(hosts, vip); len(holders) > 1 {
			return verdict{
				"False", VIPHeldTwice,
				[]string{fmt.Sprintf("%v is held by %s: see that keepalived on them hears each other, or ask them again if it has just moved", vip, names(holders))},
				latest(holders, func(h Host) time.Time { return h.vipSince(vip) }), nil,
			}
		}
	}
	for _, vip := range vips {
		if holders := holding(hosts, vip); len(holders) == 1 && !holders[0].ready() {
			v := failed(holders[0])
			v.at = later(v.at, holders[0].vipSince(vip))
			return v
		}
	}
	failing := filter(hosts, func(h Host) bool { return h.answers() && !h.ready() })
	if len(vips) == 0 && len(failing) > 0 {
		if len(failing) == len(hosts) && alike(failing) {
			v := failed(failing[0])
			v.message, v.named = []string{fmt.Sprintf("%s: %s", names(failing), cmp.Or(failing[0].Condition.Message, string(failing[0].Condition.Reason)))}, failing
			return v
		}
		return failed(worst(failing))
	}
	for _, vip := range vips {
		if len(holding(hosts, vip)) > 0 {
			continue
		}
		// A host that does not know of a VIP may have it nevertheless.
		if blind := filter(failing, func(h Host) bool { return h.state(vip) == "" }); len(blind) > 0 {
			return failed(worst(blind))
		}
		if len(silent) == 0 {
			// It was so when the last of them had lost it.
			at := latest(hosts, func(h Host) time.Time { return h.vipSince(vip) })
			return verdict{"False", VIPNotHeld, []string{fmt.Sprintf("%v is held by no host: see keepalived on %s", vip, names(hosts))}, at, nil}
		}
	}
	if len(silent) > 0 {
		return verdict{"Unknown", report.NotReachable, whys(silent), latest(silent, Host.since), silent}
	}
	if len(vips) == 0 {
		return verdict{"True", report.NotRequired, []string{hosts[0].Condition.Message}, latest(hosts, Host.since), nil}
	}
	return served(hosts, vips)
}

// alike holds for hosts that all say the same.
func alike(hosts []Host) bool {
	return !slices.ContainsFunc(hosts, func(h Host) bool {
		return h.Condition.Reason != hosts[0].Condition.Reason || h.Condition.Message != hosts[0].Condition.Message
	})
}

// failed is the verdict that one host gives for all.
func failed(h Host) verdict {
	return verdict{"False", h.Condition.Reason, []string{h.why()}, h.since(), []Host{h}}
}

// served is the verdict when every VIP is held by exactly one host, which is ready.
func served(hosts []Host, vips []netip.Addr) verdict {
	v := verdict{status: "True", reason: report.Serving}
	for _, vip := range vips {
		holder := holding(hosts, vip)[0]
		v.message = append(v.message, fmt.Sprintf("%v is held and served by %s", vip, holder.Name))
		v.at = later(v.at, later(holder.since(), holder.vipSince(vip)))
	}
	return v
}

// required are the API VIPs of which any host says that it has to be held, in their
// order.
func required(hosts []Host) []netip.Addr {
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

func holding(hosts []Host, vip netip.Addr) []Host {
	return filter(hosts, func(h Host) bool { return h.answers() && h.state(vip) == report.VIPHeld })
}

// worst is the host whose trouble has to be seen to first: what an admin has to mend
// by hand before what mends itself, and the first by name of those alike.
func worst(hosts []Host) Host {
	order := []report.Reason{
		report.InvalidConfig, report.NftablesUnavailable, report.PortInUse, report.NoVIPs, report.UpstreamUnreachable,
		report.ProxyUnavailable, report.ExternalLoadBalancer, report.Disabled, report.Starting,
	}
	// What a newer host says and this program does not know comes first.
	return slices.MinFunc(hosts, func(a, b Host) int {
		return cmp.Compare(slices.Index(order, a.Condition.Reason), slices.Index(order, b.Condition.Reason))
	})
}

// remarks are what an admin has to know besides.
func remarks(hosts, named []Host) (all []string) {
	for _, h := range hosts {
		if !h.ready() && !slices.ContainsFunc(named, func(n Host) bool { return n.Name == h.Name }) {
			all = append(all, fmt.Sprintf("%s is not ready (%s): %s", h.Name, cmp.Or(h.Condition.Reason, report.NotReachable), cmp.Or(h.Problem, h.Condition.Message)))
		}
	}
	answering := filter(hosts, Host.answers)
	if groups := group(answering, func(h Host) string { return h.Version }); len(groups) > 1 {
		all = append(all, "the versions differ: "+listed(groups))
	}
	// A host that is not ready may not have got as far as its VIPs.
	if groups := group(filter(answering, Host.ready), vipsOf); len(groups) > 1 {
		all = append(all, "the API VIPs differ: "+listed(groups))
	}
	return all
}

func vipsOf(h Host) string {
	all := make([]string, 0, len(h.VIPs))
	for _, v := range h.VIPs {
		all = append(all, v.Address.String())
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(all, " "), "none")
}

func group(hosts []Host, by func(Host) string) map[string][]Host {
	groups := make(map[string][]Host)
	for _, h := range hosts {
		groups[by(h)] = append(groups[by(h)], h)
	}
	return groups
}

func listed(groups map[string][]Host) string {
	all := make([]string, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, cmp.Or(key, "none")+" on "+names(groups[key]))
	}
	return strings.Join(all, ", ")
}

// since is when the status came to be: as before while it is the same, and otherwise
// when the hosts came to be so. Where what they say is older than the transition
// before, it is not that which has changed: it was found when they were asked.
func since(v verdict, hosts []Host, previous *report.Condition, clock time.Time) time.Time {
	known := previous != nil && !previous.LastTransitionTime.IsZero()
	if known && previous.Status == v.status {
		return earlier(previous.LastTransitionTime, clock).UTC().Truncate(time.Second)
	}
	at := v.at
	if at.IsZero() {
		at = latest(hosts, Host.since)
	}
	if at.IsZero() || known && !at.After(previous.LastTransitionTime) {
		at = latest(hosts, func(h Host) time.Time { return h.Observed })
	}
	if at.IsZero() {
		at = clock
	}
	if known && at.Before(previous.LastTransitionTime) {
		at = previous.LastTransitionTime
	}
	return earlier(at, clock).UTC().Truncate(time.Second) // a host's clock may be ahead
}

func latest(hosts []Host, when func(Host) time.Time) (at time.Time) {
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

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func filter(hosts []Host, keep func(Host) bool) (kept []Host) {
	for _, h := range hosts {
		if keep(h) {
			kept = append(kept, h)
		}
	}
	return kept
}

func names(hosts []Host) string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.Name
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

func whys(hosts []Host) []string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.why()
	}
	return all
}

// maxMessage is how long Kubernetes lets a condition's message be.
const maxMessage = 32 << 10

// shorten cuts a message between characters.
func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxMessage-len(mark)], "") + mark
}

// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// minOverlap is how long two services must have answered at the same time. Each host tests within
// it with the default interval, so a VIP that moved away and back is no overlap. The clocks
// of two hosts can differ a little.
const minOverlap = 30 * time.Second

// vipTest returns the host's test of a VIP that another host holds, if there is one.
func (h HostReport) vipTest(vip netip.Addr) (report.VIPTest, bool) {
	for _, t := range h.VIPTests {
		if t.VIP.Unmap().WithZone("") == vip && t.Result.Known() {
			return t, true
		}
	}
	return report.VIPTest{}, false
}

// addTests adds to a VIP which hosts reach it. A host that reports "answered" cannot hide what
// another one reports.
func addTests(v *report.ClusterVIP, hosts []HostReport) {
	v.ReachableFrom, v.UnreachableFrom = []string{}, []string{}
	for _, h := range hosts {
		t, tested := h.vipTest(v.Address)
		switch {
		case tested && t.Cause == string(findings.VIPUnreachableFromHere):
			v.UnreachableFrom = append(v.UnreachableFrom, h.Name)
		case !tested, t.Result == report.VIPNotSent:
			continue
		case t.Result == report.VIPAnswered, t.Result == report.VIPTwoHosts:
			v.ReachableFrom = append(v.ReachableFrom, h.Name)
		}
		if t.Checked.After(v.Tested) {
			v.Tested = t.Checked
		}
	}
}

// testProblems are what the tests of VIPs between hosts showed.
func testProblems(hosts []HostReport, vip netip.Addr) (all []problem) {
	unreachable := make(map[report.VIPTestResult][]HostReport)
	for _, h := range hosts {
		if t, tested := h.vipTest(vip); tested && t.Cause == string(findings.VIPUnreachableFromHere) {
			unreachable[t.Result] = append(unreachable[t.Result], h)
		}
	}
	for _, result := range report.VIPTestResults() {
		if from := unreachable[result]; len(from) > 0 {
			all = append(all, newProblem(findings.VIPUnreachableFromHere, report.LevelProblem,
				fmt.Sprintf("port 80 of {vip} cannot be reached from %s: %s", joinNames(from), result.Describe()),
				"Run oc http01 check, which follows the packets of all nodes and names the rule that drops them.", from))
		}
	}
	if both := twoHosts(hosts, vip); len(both) > 0 && !isBGP(hosts, vip) {
		all = append(all, difference(findings.VIPTwoHosts, nil, both))
	}
	return all
}

// twoHosts returns the hosts that got responses of different services at the same time. A
// service that restarts, or a VIP that moves, ends the responses with one instance ID before
// those with the next one begin. A failed test carries the ID of an earlier response, which
// does not show that this service still answers.
func twoHosts(hosts []HostReport, vip netip.Addr) []HostReport {
	for i, h := range hosts {
		a, tested := h.vipTest(vip)
		if tested && a.Cause == string(findings.VIPTwoHosts) {
			return []HostReport{h}
		}
		for _, other := range hosts[:i] {
			b, _ := other.vipTest(vip)
			if a.Result != report.VIPAnswered || b.Result != report.VIPAnswered {
				continue
			}
			if a.Instance == "" || b.Instance == "" || a.Instance == b.Instance {
				continue
			}
			begin, end := later(a.InstanceSince, b.InstanceSince), earlier(a.Checked, b.Checked)
			if end.Sub(begin) > minOverlap {
				return []HostReport{other, h}
			}
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }

func read(t *testing.T, name, document string) check.Node {
	t.Helper()
	n := check.Read(nodes.Output{Node: name, Document: []byte(document)})
	if n.Problem != "" {
		t.Fatal(n.Problem)
	}
	return n
}

// parse reads the result of a node with this outcome and these checks.
func parse(t *testing.T, name, outcome string, checks ...string) check.Node {
	t.Helper()
	return read(t, name, fmt.Sprintf(`{"host": %q, "outcome": %q, "summary": "summary of %s", "checks": [%s], "new": 1}`,
		name, outcome, name, strings.Join(checks, ",")))
}

const (
	dnsFails     = `{"name": "dns", "outcome": "problem", "findings": [{"id": "dns-no-record", "level": "problem", "message": "no record", "remediation": "Add it."}]}`
	clockWarns   = `{"name": "clock", "outcome": "warning", "notChecked": "no server", "findings": [{"id": "clock-offset", "level": "warning", "message": "1 s", "remediation": "Correct it."}]}`
	routeSkipped = `{"name": "route", "outcome": "skipped", "text": "no ingress"}`
	portOK       = `{"name": "port", "outcome": "ok", "text": "listens"}`
)

// TestCombine: equal findings of several nodes are one, and the worst node decides.
func TestCombine(t *testing.T) {
	t.Parallel()
	down := check.Node{Name: "m9", Problem: "no output", Remediation: "Increase it."}
	dns := report.ClusterProblem{
		ID: "dns-no-record", Level: "problem", Check: "dns", Message: "no record",
		Remediation: "Add it.",
	}
	clock := report.ClusterProblem{
		ID: "clock-offset", Level: "warning", Check: "clock", Message: "1 s",
		Remediation: "Correct it.",
	}
	notReporting := report.ClusterProblem{
		ID: "node-not-reporting", Level: "warning", Message: "m9: no output",
		Remediation: "Increase it.", Nodes: []string{"m9"},
		Commands: []string{"oc get node m9", "oc debug node/m9 -- chroot /host systemctl status http01-proxyd --no-pager"},
	}
	on := func(p report.ClusterProblem, nodes ...string) report.ClusterProblem {
		p.Nodes = nodes
		return p
	}
	for name, tt := range map[string]struct {
		nodes    []check.Node
		outcome  report.CheckOutcome
		summary  string
		findings []report.ClusterProblem
	}{
		"no problem": {
			[]check.Node{parse(t, "m1", "ok", portOK), parse(t, "m0", "ok")},
			report.CheckOK,
			"No problem was found (2 of 2 nodes reported).",
			[]report.ClusterProblem{},
		},
		"one problem of two": {
			[]check.Node{parse(t, "m1", "problem", clockWarns, dnsFails), parse(t, "m0", "problem", dnsFails, portOK)},
			report.CheckProblem,
			"1 problem and 1 warning (2 of 2 nodes reported).",
			[]report.ClusterProblem{on(dns, "m0", "m1"), on(clock, "m1")},
		},
		"a warning": {
			[]check.Node{parse(t, "m0", "warning", clockWarns), parse(t, "m1", "ok")},
			report.CheckWarning,
			"1 warning (2 of 2 nodes reported).",
			[]report.ClusterProblem{on(clock, "m0")},
		},
		"one is down": {
			[]check.Node{down, parse(t, "m0", "ok")},
			report.CheckIncomplete, "No problem was found, but not everything was checked (1 of 2 nodes reported).",
			[]report.ClusterProblem{notReporting},
		},
		"one is down, one has a problem": {
			[]check.Node{down, parse(t, "m0", "problem", dnsFails)},
			report.CheckProblem, "1 problem (1 of 2 nodes reported).",
			[]report.ClusterProblem{on(dns, "m0"), notReporting},
		},
		"a problem without a finding": {
			[]check.Node{parse(t, "m0", "problem")},
			report.CheckProblem,
			"A problem was found (1 of 1 node reported).",
			[]report.ClusterProblem{},
		},
		"incomplete": {
			[]check.Node{parse(t, "m0", "incomplete", routeSkipped), parse(t, "m1", "ok")},
			report.CheckIncomplete, "No problem was found, but not everything was checked (2 of 2 nodes reported).",
			[]report.ClusterProblem{},
		},
		"one is no control-plane node": {
			[]check.Node{parse(t, "m0", "nothing"), parse(t, "m1", "ok")},
			report.CheckOK,
			"No problem was found (2 of 2 nodes reported).",
			[]report.ClusterProblem{},
		},
		"none has reported": {
			[]check.Node{down},
			report.CheckIncomplete, "Nothing was checked (0 of 1 node reported).",
			[]report.ClusterProblem{notReporting},
		},
		"no control-plane node": {
			[]check.Node{parse(t, "w0", "nothing")},
			report.CheckIncomplete,
			"Nothing was checked (1 of 1 node reported).",
			[]report.ClusterProblem{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check.Combine(tt.nodes, now())
			if got.Outcome != tt.outcome || got.Summary != tt.summary || got.Kind != "ClusterCheck" ||
				!got.Time.Equal(now().Truncate(time.Second)) {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(tt.findings, got.Findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for i, n := range got.Nodes {
				if i > 0 && got.Nodes[i-1].Name >= n.Name {
					t.Errorf("the nodes are not sorted: %+v", got.Nodes)
				}
			}
		})
	}
}

// TestNodes: the result of each node, and what it did not check.
func TestNodes(t *testing.T) {
	t.Parallel()
	got := check.Combine([]check.Node{
		{Name: "m1", Problem: "no output", Remediation: "Increase it."}, parse(t, "m0", "warning", clockWarns, routeSkipped,
			portOK),
	}, now()).Nodes
	want := []report.NodeCheck{
		{Name: "m0", Reported: true, Outcome: "warning", Message: "summary of m0", NotChecked: []string{
			"clock: no server",
			"route: no ingress",
		}, Checks: []report.CheckResult{
			{Name: "clock", Outcome: "warning"},
			{Name: "route", Outcome: "skipped", Text: "no ingress"},
			{Name: "port", Outcome: "ok", Text: "listens"},
		}},
		{Name: "m1", Message: "no output", NotChecked: []string{}, Checks: []report.CheckResult{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestIncomplete: a check that has nothing to check is not reported, and a necessary check
// that did not run leaves the node incomplete.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	n := read(t, "m0", `{"kind": "Check", "outcome": "warning", "summary": "s", "incomplete": ["route"], "checks": [
{"name": "egress", "outcome": "skipped", "text": "no egress proxy", "incomplete": false}, {"name": "route", "outcome": "skipped", "text": "no ingress", "incomplete": true}]}`)
	got := check.Combine([]check.Node{n}, now())
	want := []report.NodeCheck{{
		Name: "m0", Reported: true, Outcome: "incomplete", Message: "s",
		NotChecked: []string{"route: no ingress"},
		Checks: []report.CheckResult{
			{Name: "egress", Outcome: "skipped", Text: "no egress proxy"},
			{Name: "route", Outcome: "skipped", Text: "no ingress"},
		},
	}}
	if diff := cmp.Diff(want, got.Nodes); diff != "" || got.Outcome != report.CheckIncomplete {
		t.Errorf("%s (-want +got):\n%s", got.Outcome, diff)
	}
}

// TestParse: text of a host is printable and limited, and other documents are rejected.
func TestParse(t *testing.T) {
	t.Parallel()
	escape, long := `a\u001b[31m\nb`, strings.Repeat("x", 1<<20)
	n := read(t, "m0", `{"kind": "Check", "outcome": "problem", "summary": "`+escape+long+
		`", "checks": [{"name": "dns", "notChecked": "`+escape+long+`",
"findings": [{"id": "new", "level": "`+escape+`", "message": "`+escape+long+`", "remediation": "`+escape+long+`", "nodes": ["other"], "check": "other"}]}]}`)
	f := n.Findings[0]
	for _, text := range []string{n.Summary, strings.TrimPrefix(n.NotChecked[0], "dns: "), f.Message, f.Remediation} {
		if !strings.HasPrefix(text, "a [31m bx") || len(text) > 4<<10 {
			t.Errorf("%d bytes: %.100q", len(text), text)
		}
	}
	if f.ID != "new" || f.Level != "problem" || f.Check != "dns" || f.Nodes != nil {
		t.Errorf("%.200v", f)
	}
	finding := `{"id": "a", "message": "m"},`
	for text, want := range map[string]string{
		`{"kind": "Status"}`: `not a Check, but of the kind "Status"`,
		`{}`:                 `not a result of check: its outcome is ""`,
		`{"outcome": "ok", "checks": [{"name": "a b"}]}`:                            `not a result of check: a check with the name "a b"`,
		`{"outcome": "ok", "checks": [{"name": "a", "findings": [{"id": "[x]"}]}]}`: `not a result of check: a finding with the ID "[x]"`,
		`{"outcome": "ok", "checks": [{"name": "a", "findings": [` + strings.Repeat(finding, 200) +
			`{"id": "a"}]}]}`: "not a result of check: 201 findings, and 0 checks that were skipped",
	} {
		if n := check.Read(nodes.Output{Node: "m0", Document: []byte(text)}); n.Problem != want ||
			!strings.HasSuffix(n.Remediation, "http01-proxyd check") {
			t.Errorf("%.100s: %v, want %s", text, n, want)
		}
	}
}

// TestPackets: the holder's finding names the nodes whose packets it dropped, has its command
// in the form for a workstation, and explains that these nodes do not reach the VIP.
func TestPackets(t *testing.T) {
	t.Parallel()
	const (
		dropped = `{"name": "ruleset", "outcome": "problem", "findings": [{"id": "packet-dropped", "level": "problem", "message": "dropped", "remediation": "Open it.", ` +
			`"commands": ["nft insert rule inet filter input tcp dport 8888 accept"], "sources": ["192.0.2.11", "2001:db8::11"]}]}`
		from        = `{"name": "ruleset", "outcome": "ok", "addresses": [%q]}`
		unreachable = `{"name": "self-check", "outcome": "problem", "findings": [{"id": "proxy-unreachable", "level": "problem", "message": "no response at %s: timeout", "remediation": "Check it."}]}`
	)
	all := check.Combine([]check.Node{
		parse(t, "m0", "problem", dropped), parse(t, "m1", "problem", fmt.Sprintf(from, "192.0.2.11"),
			fmt.Sprintf(unreachable, "192.0.2.5:80")),
		parse(t, "m2", "problem", fmt.Sprintf(from, "192.0.2.12"), fmt.Sprintf(unreachable, "192.0.2.5:80")),
		// of the other family
		parse(t, "m3", "problem", fmt.Sprintf(from, "192.0.2.11"), fmt.Sprintf(unreachable, "[2001:db8::5]:80")),
	}, now())
	for i, n := range all.Nodes {
		if elsewhere := strings.HasSuffix(n.Message, " Another node found the cause."); elsewhere != (i == 1) {
			t.Errorf("%s: %s", n.Name, n.Message)
		}
	}
	want := []report.ClusterProblem{
		{
			ID: "packet-dropped", Level: "problem", Check: "ruleset", Message: "dropped (192.0.2.11 is m1)",
			Remediation: "Open it.", Nodes: []string{"m0"},
			Commands: []string{"oc debug node/m0 -- chroot /host nft insert rule inet filter input tcp dport 8888 accept"},
			Sources:  []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")},
		},
		{
			ID: "proxy-unreachable", Level: "problem", Check: "self-check", Message: "no response at 192.0.2.5:80: timeout",
			Remediation: "Check it.", Nodes: []string{"m2"},
		},
		{
			ID: "proxy-unreachable", Level: "problem", Check: "self-check", Message: "no response at [2001:db8::5]:80: timeout",
			Remediation: "Check it.", Nodes: []string{"m3"},
		},
	}
	if diff := cmp.Diff(want, all.Findings, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStoppedHolder: the fault of the node that holds a VIP explains why the others do not reach it. The
// same fault of another node explains nothing.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	const (
		stopped     = `{"name": "service", "outcome": "problem", "findings": [{"id": "service-not-running", "level": "problem", "message": "stopped", "remediation": "Start it."}]}`
		unreachable = `{"name": "self-check", "outcome": "problem", "findings": [{"id": "proxy-unreachable", "level": "problem", "message": "no response at 192.0.2.5:80 and [2001:db8::5]:80: refused", "remediation": "Check it."}]}`
	)
	holding := func(vips string) check.Node {
		return read(t, "m0", `{"outcome": "problem", "held": [`+vips+`], "checks": [`+stopped+`]}`)
	}
	drops := read(t, "m0", `{"outcome": "problem", "held": ["192.0.2.5", "2001:db8::5"], "checks": [{"name": "ruleset", "findings": [{"id": "packet-dropped"}]}]}`)
	if got := check.Combine([]check.Node{drops, parse(t, "m1", "problem", unreachable)}, now()).Findings; len(got) != 2 {
		t.Errorf("a rule about others: %+v", got)
	}
	for vips, want := range map[string]int{`"192.0.2.5", "2001:db8::5"`: 1, `"192.0.2.5"`: 2, ``: 2} {
		got := check.Combine([]check.Node{holding(vips), parse(t, "m1", "problem", unreachable)}, now()).Findings
		if len(got) != want {
			t.Errorf("a holder of %s: %+v", vips, got)
		}
	}
}

// TestNoHolder: if every node has reported and none holds the VIPs that nodes do not reach, that is the problem.
func TestNoHolder(t *testing.T) {
	t.Parallel()
	const unreachable = `{"name": "self-check", "outcome": "problem", "findings": [{"id": "proxy-unreachable", "level": "problem", ` +
		`"message": "no response at 192.0.2.5:80 (also [2001:db8::5]:80): timeout", "remediation": "Check it.", ` +
		`"commands": ["curl -sSi http://192.0.2.5:80/", "oc http01 status", "oc http01 check"]}]}`
	node := func(name, held, more string) check.Node {
		return read(t, name, fmt.Sprintf(`{"outcome": "problem", %s "checks": [%s%s]}`, held, unreachable, more))
	}
	none := `"held": [],`
	got := check.Combine([]check.Node{node("m0", none, ""), node("m1", none, "")}, now()).Findings
	if len(got) != 1 || got[0].ID != "vip-unassigned" || got[0].Message != "no checked node holds 192.0.2.5 or 2001:db8::5" ||
		len(got[0].Commands) != 2 || !strings.HasPrefix(got[0].Commands[1], "oc debug node/m1 -- chroot /host ") {
		t.Errorf("without a holder: %+v", got)
	}
	for name, other := range map[string]check.Node{
		"a holder":                  node("m1", `"held": ["192.0.2.5"],`, ""),
		"an earlier version":        node("m1", "", ""),
		"no report":                 {Name: "m1", Problem: "no output"},
		"a node that knows no VIPs": node("m1", none, `, {"name": "vips", "findings": [{"id": "keepalived-no-api-instance"}]}`),
	} {
		all := check.Combine([]check.Node{node("m0", none, ""), other}, now()).Findings
		i := slices.IndexFunc(all, func(p report.ClusterProblem) bool { return p.ID == "proxy-unreachable" })
		if i < 0 || slices.ContainsFunc(all, func(p report.ClusterProblem) bool { return p.ID == "vip-unassigned" }) {
			t.Errorf("%s: %+v", name, all)
			continue
		}
		// The administrator runs oc http01 check already.
		if diff := cmp.Diff([]string{"oc debug node/m0 -- chroot /host curl -sSi http://192.0.2.5:80/", "oc http01 status"},
			all[i].Commands[:2]); diff != "" || slices.Contains(all[i].Commands, "oc http01 check") {
			t.Errorf("%s: commands (-want +got):\n%s", name, diff)
		}
	}
}

// TestTwoHolders: two nodes with one VIP are a problem, although neither of them finds one, unless BGP
// announces the VIP from both.
func TestTwoHolders(t *testing.T) {
	t.Parallel()
	node := func(name, held, more string) check.Node {
		return read(t, name, fmt.Sprintf(`{"outcome": "ok", "held": [%s]%s, "checks": [%s]}`, held, more, portOK))
	}
	const vip4, vip6 = `"192.0.2.5"`, `"2001:db8::5"`
	got := check.Combine([]check.Node{node("m1", vip4, ""), node("m0", vip4+","+vip6, ""), node("m2", "", "")}, now())
	if len(got.Findings) != 1 || got.Outcome != report.CheckProblem ||
		got.Summary != "1 problem (3 of 3 nodes reported)." {
		t.Fatalf("two holders: %+v", got)
	}
	f := got.Findings[0]
	const first = "oc debug node/m0 -- chroot /host sh -c 'ip -br address show to 192.0.2.5; "
	if f.ID != "vip-duplicate" || f.Message != "192.0.2.5 is held by m0 and m1" || len(f.Commands) != 4 ||
		!slices.Equal(f.Nodes, []string{"m0", "m1"}) || !strings.HasPrefix(f.Commands[0], first) {
		t.Errorf("two holders: %+v", f)
	}
	both := vip4 + "," + vip6 + "," + vip4 // an invalid answer lists one twice
	families := check.Combine([]check.Node{node("m0", both, ""), node("m1", both, "")}, now()).Findings
	if len(families) != 1 || families[0].Message != "192.0.2.5 and 2001:db8::5 are held by m0 and m1" ||
		len(families[0].Commands) != 8 {
		t.Errorf("both families: %+v", families)
	}
	if alone := check.Combine([]check.Node{node("m0", both, "")}, now()).Findings; len(alone) != 0 {
		t.Errorf("one holder: %+v", alone)
	}
	for name, nodes := range map[string][]check.Node{
		"BGP":          {node("m0", vip4, `, "management": "BGP"`), node("m1", vip4, `, "management": "BGP"`)},
		"other VIPs":   {node("m0", vip4, ""), node("m1", vip6, "")},
		"no VIPs held": {node("m0", "", ""), node("m1", "", "")},
	} {
		if got := check.Combine(nodes, now()); len(got.Findings) != 0 || got.Outcome != report.CheckOK {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestContents: a page shows the state, the VIPs, the requests, the faults with their
// remediation, the last challenges, and the table.
func TestContents(t *testing.T) {
	t.Parallel()
	got := visible(parse(t, page.ForHost(page.Host{Name: "master0", Status: hostReport("x"), Check: checkReport("y")},
		now)))
	for _, want := range []string{
		"http01-proxyd check: master0 http01-proxyd check master0 Created 2026-03-04 12:30:00 UTC",
		"y, and the service reports 5 problems and 3 warnings", "holds 192.0.2.5 x HTTP01ChallengeProxyReady is True, in this state since " +
			"2026-03-04 11:00:00 UTC (90m). Reported 2026-03-04 12:30:00 UTC by version v1.2.3 x.",
		"y Fix: y",
		"problem ca-bundle-invalid The CA bundle is rejected, and the previous CAs stay trusted: x",
		"warning certificate-expires-soon The certificate that 192.0.2.5:6443 presents for x",
		"y ok y Not checked: y", "The challenge as a validator sees it",
		"192.0.2.5 Held since 2026-03-04 12:10:00, 20m",
		"2001:db8::5 Standby since 2026-03-04 10:30:01, 119m",
		"API VIP 192.0.2.5 held here for 20m, reachable from 192.0.2.11 (4s ago)",
		"API VIP 2001:db8::5 not on this host for 2h [ vip-unreachable-from-here ]: there is no answer in time, or no host " +
			"has the address, 4 times in a row (3s ago)",
		"problem vip-unreachable-from-here Port 80 of the API VIP 2001:db8::5 cannot be reached from this host: there is " +
			"no answer in time, or no host has the address Fix: oc http01 check follows the packets",
		"The last changes of VIPs and conditions, newest first Time (UTC) VIP or condition From To 2026-03-04 " +
			"12:10:00.000 HTTP01ChallengeProxyReady Standby Serving",
		"Outcome cert-manager lets-encrypt x ok 9 0 0 upstream-error 0 3 0 x 0 0 1",
		"Challenges 12 forwarded, 10 rejected as foreign-host, 30 rejected as not-challenge",
		"Lifetime of the API's certificates x 10d left of 90d , until 2026-03-14 12:30:00 UTC x: 10d left of 90d",
		"3 challenges at most 3.1 ms , 1 failed (red)", "2026-03-04 12:29:30 UTC: 200 in 2.1 ms",
		"30s 2026-03-04 12:29:30 200 api.example.com x evaGxfAD… 2.1",
		"1234567 prerouting x", "0 input (not ours)", "redirects port 80 of 192.0.2.5 to port 8888",
		"Ingress 192.0.2.6:80 accepts connections, checked 10s ago Ingress [2001:db8::6]:80 fails [ ingress-unreachable ], " +
			"checked 10s ago Ingress 192.0.2.7:80 not checked yet",
		"Certificate x: only 10d left of 90d, until 2026-03-14",
		"Configuration the last good one is in use: x is rejected x x", "Host names any name, because x",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestCheckOutcome: a check is reported as successful only if it was complete.
func TestCheckOutcome(t *testing.T) {
	t.Parallel()
	for want, r := range map[section.Level]result.Report{
		section.Good:    {Outcome: report.CheckOK, Summary: "s."},
		section.Warning: {Outcome: report.CheckIncomplete, Summary: "s.", Incomplete: []string{"dns"}},
		section.Bad:     {Outcome: report.CheckProblem, Summary: "s."},
		section.Neutral: {Outcome: report.CheckSkipped, Summary: "s."},
	} {
		card := fmt.Sprintf(`<section class="state %s"><p class="headline">`, want)
		got := string(page.ForHost(page.Host{Check: &r, Error: "e"}, now))
		if _, after, found := strings.Cut(got, card); !found || !strings.Contains(after[:100], ">s</") {
			t.Errorf("lacks %q: %s", card, got)
		}
	}
}

// TestFailureUntilSuccess: a failed challenge is a problem until another one succeeds.
func TestFailureUntilSuccess(t *testing.T) {
	t.Parallel()
	r := hostReport("x")
	r.Challenges.Recent = r.Challenges.Recent[:1]
	if got := visible(parse(t, page.ForHost(page.Host{Status: r}, now))); !strings.Contains(got,
		"problem ingress-refused x") {
		t.Error(got)
	}
}

// TestEmptyReport: a service that has just started has a page too.
func TestEmptyReport(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]page.Host{
		"no status":   {Name: "a", Error: "cannot query the service"},
		"unreachable": {Name: "a", Status: report.ServiceUnreachable(now, errors.New("no answer"))},
		"worker": {Name: "a", Error: "cannot query the service", Check: &result.Report{
			Outcome: report.CheckNotApplicable,
			Summary: "Nothing here",
		}},
		"zero": {Name: "a"},
	} {
		got := visible(parse(t, page.ForHost(h, now)))
		if strings.Contains(got, "Problems") != (name == "unreachable") {
			t.Errorf("%s: the problems: %s", name, got)
		}
		if want := map[string]string{
			"no status": "cannot query the service",
			"worker":    "Nothing here",
		}[name]; !strings.Contains(got, want) {
			t.Errorf("%s: lacks %q: %s", name, want, got)
		}
	}
}

// structure returns every element with its attributes, without the attributes' values. It leaves out the commands of
// findings: one with a value that is not printable is not there.
func structure(root *html.Node) []string {
	var all []string
	for n := range root.Descendants() {
		if n.Type == html.TextNode || n.Data == "pre" {
			continue
		}
		line := []string{n.Data}
		for _, a := range n.Attr {
			line = append(line, a.Key)
		}
		all = append(all, strings.Join(line, " "))
	}
	return all
}

// hostile are texts that leave their place in a page whose author has not escaped them.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `</style><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`,
		`' onmouseover='alert(1)`,
		`--><svg onload=alert(1)>`, `]]><b>`, `&lt;b&gt;&#60;`, `</title><h1>`,
		`</td></tr></table><form action=http://192.0.2.1>`,
		"a\x00<b\x1b[31m\n\t", "\u202etxt.exe\u2066", "\xff\xfe<i>", "`${alert(1)}`", "{{.}}", `<!--`, `<plaintext>`,
		`<a href="javascript:alert(1)">`,
	}
}

// TestHostileTextStaysText: the elements and attributes of a page do not depend on the
// texts in a report, and the texts are visible as they are.
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	const noID = "X" // an ID would have an anchor
	host, cluster := structure(parse(t, wholePage(noID))), structure(parse(t, clusterPage(noID)))
	check := structure(parse(t, clusterCheckPage("x")))
	withoutCommand := structure(parse(t, wholePage("\x01"))) // of a value that no terminal shows
	for _, s := range hostile() {
		root, want := parse(t, wholePage(s)), host
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			want = withoutCommand
		}
		if diff := cmp.Diff(want, structure(root)); diff != "" {
			t.Errorf("%q changes the elements (-want +got):\n%s", s, diff)
		}
		if diff := cmp.Diff(cluster, structure(parse(t, clusterPage(s)))); diff != "" {
			t.Errorf("%q changes the elements of a cluster (-want +got):\n%s", s, diff)
		}
		if diff := cmp.Diff(check, structure(parse(t, clusterCheckPage(s)))); diff != "" {
			t.Errorf("%q changes the elements of a check (-want +got):\n%s", s, diff)
		}
		if shown := strings.Join(strings.Fields(strings.Map(printed, s)), " "); !strings.Contains(visible(root), shown) {
			t.Errorf("%q is not visible as %q", s, shown)
		}
	}
}

// printed is the rule of package printable, for the hostile texts.
func printed(r rune) rune {
	switch {
	case r < ' ', r == '\u202e', r == '\u2066':
		return ' '
	default:
		return r
	}
}

func wholePage(name string) []byte {
	return page.ForHost(page.Host{Name: name, Status: hostReport(name), Check: checkReport(name)}, now)
}

// TestLoadsNothing: the pages of a host and of a cluster load and run nothing, and have a
// policy that forbids both.
func TestLoadsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{
		"host": wholePage("x"), "cluster": clusterPage("x"), "check": clusterCheckPage("x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := parse(t, text)
			expectInert(t, root)
			policy := ""
			for n := range root.Descendants() {
				if n.Data == "meta" && attributes(n)["http-equiv"] == "Content-Security-Policy" {
					policy = attributes(n)["content"]
				}
				if n.Data == "style" && (strings.Contains(n.FirstChild.Data, "url(") || strings.Contains(n.FirstChild.Data,
					"@import")) {
					t.Error("the style sheet loads something")
				}
			}
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script") {
				t.Errorf("policy %q", policy)
			}
		})
	}
}

// expectInert expects only elements and attributes that load and run nothing.
func expectInert(t *testing.T, root *html.Node) {
	t.Helper()
	allowed := strings.Fields(
		"html head meta title style body header main footer section h1 h2 h3 p b br span div dl dt dd ul li pre " +
			"table caption thead tbody tr th td time a svg rect text")
	names := strings.Fields(
		"lang charset http-equiv content name class id role tabindex aria-label aria-labelledby aria-hidden scope datetime " +
			"width height x y href data-title")
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(allowed, n.Data) {
			t.Errorf("element %s", n.Data)
		}
		for key, value := range attributes(n) {
			if !slices.Contains(names, strings.ToLower(key)) || key == "href" && !strings.HasPrefix(value, "#") {
				t.Errorf("%s has %s=%q", n.Data, key, value)
			}
		}
	}
}

func attributes(n *html.Node) map[string]string {
	all := map[string]string{}
	for _, a := range n.Attr {
		all[a.Key] = a.Val
	}
	return all
}

// FuzzReport: the page of any report is inert. A program on another machine shows the
// reports of nodes, which it does not trust.
func FuzzReport(f *testing.F) {
	for _, name := range append(hostile(), "x") {
		text, err := json.Marshal(hostReport(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(
		`{"history":[{"time":"0001-01-01T00:00:00Z","vip":"192.0.2.5","to":"Held"},{"time":"9999-01-01T00:00:00Z","vip":"192.0.2.5","from":"Held"}],"time":"9999-12-31T00:00:00Z"}`))
	f.Add([]byte(
		`{"history":[{"time":"2026-03-04T12:00:00Z","condition":"HTTP01ChallengeProxyReady","to":"x"}],"time":"0001-01-02T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r report.Report
		if json.Unmarshal(text, &r) != nil {
			return
		}
		expectInert(t, parse(t, page.ForHost(page.Host{Name: r.Version, Status: r}, now)))
	})
}

// TestAccessible: one first heading and no level skipped, a caption and header cells for
// each table, a name for each drawing, and unique IDs that every reference finds.
func TestAccessible(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{"host": wholePage("x"), "cluster": clusterPage("x")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectAccessible(t, parse(t, text))
		})
	}
}

func expectAccessible(t *testing.T, root *html.Node) {
	t.Helper()
	ids := map[string]int{}
	var references []string
	level, tables, drawings := 0, 0, 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		values := attributes(n)
		if id, has := values["id"]; has {
			ids[id]++
		}
		references = append(references, strings.Fields(values["aria-labelledby"])...)
		if target, is := strings.CutPrefix(values["href"], "#"); is {
			references = append(references, target)
		}
		switch n.Data {
		case "h1", "h2", "h3":
			next := int(n.Data[1] - '0')
			if next > level+1 || next == 1 && level != 0 {
				t.Errorf("%s after h%d", n.Data, level)
			}
			level = next
		case "table":
			tables++
			if n.FirstChild.Data != "caption" {
				t.Error("a table without a caption")
			}
		case "th":
			if values["scope"] == "" {
				t.Error("a header cell without a scope")
			}
		case "svg":
			if n.Parent.Data == "svg" {
				continue
			}
			drawings++
			if values["aria-hidden"] == "" && (values["role"] != "img" || values["aria-labelledby"]+values["aria-label"] == "") {
				t.Errorf("a drawing without a name: %v", values)
			}
		}
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%d elements with the ID %s", n, id)
		}
	}
	for _, id := range references {
		if ids[id] == 0 {
			t.Errorf("no element with the ID %s", id)
		}
	}
	if tables < 6 || drawings < 9 || len(references) < 3 {
		t.Errorf("%d tables, %d drawings, %d references", tables, drawings, len(references))
	}
}

// TestTimelineBars: a bar for each state of a VIP, in place and length of its time.
func TestTimelineBars(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	change := func(minutes int, from, to string) report.Change {
		return report.Change{Time: now.Add(time.Duration(minutes-100) * time.Minute), VIP: vip, From: from, To: to}
	}
	starting := report.Change{Time: ago(100 * time.Minute), Condition: "other", To: "x"}
	for name, tt := range map[string]struct {
		history []report.Change
		state   report.VIPState
		want    []string
	}{
		"no change":  {[]report.Change{starting}, report.VIPStandby, []string{"Standby 10.000%+90.000%"}},
		"no history": {nil, report.VIPHeld, []string{"Held 0.000%+100.000%"}},
		"arrival": {
			[]report.Change{starting, change(25, "Standby", "Held")},
			report.VIPHeld,
			[]string{"Standby 0.000%+25.000%", "Held 25.000%+75.000%"},
		},
		"two moves": {
			[]report.Change{change(0, "", "Standby"), change(50, "Standby", "Held"), change(60, "Held", "Standby")},
			report.VIPStandby,
			[]string{"Standby 0.000%+50.000%", "Held 50.000%+10.000%", "Standby 60.000%+40.000%"},
		},
	} {
		r := report.Report{
			Time: now, History: tt.history,
			VIPs: []report.VIP{{Address: vip, State: tt.state, Since: ago(90 * time.Minute)}},
		}
		var got []string
		for n := range parse(t, page.ForHost(page.Host{Status: r}, now)).Descendants() {
			if n.Data != "svg" || n.Parent.Data != "svg" || !strings.Contains(n.Parent.FirstChild.FirstChild.Data,
				vip.String()) {
				continue
			}
			state, _, _ := strings.Cut(n.FirstChild.FirstChild.Data, " ")
			got = append(got, state+" "+n.Attr[0].Val+"+"+n.Attr[1].Val)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLastChangeIsVisible: a state that began at the end of the timeline has a bar, also if the
// report of an earlier release is from the whole second before the change.
func TestLastChangeIsVisible(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	r := report.Report{
		Time: now, VIPs: []report.VIP{{Address: vip, State: report.VIPHeld}},
		History: []report.Change{
			{Time: ago(time.Hour), VIP: vip, To: "Standby"},
			{Time: now.Add(400 * time.Millisecond), VIP: vip, From: "Standby", To: "Held"},
		},
	}
	var bars []map[string]string
	for n := range parse(t, page.ForHost(page.Host{Status: r}, now)).Descendants() {
		if n.Data == "svg" && n.Parent.Data == "svg" && strings.HasPrefix(n.FirstChild.FirstChild.Data, "Held from") {
			bars = append(bars, attributes(n))
		}
	}
	want := []map[string]string{{"x": "99.500%", "width": "0.500%", "height": "100%"}}
	if diff := cmp.Diff(want, bars); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLinks: the IDs of findings lead to their cards, in every text. An ID without a card is text.
func TestLinks(t *testing.T) {
	t.Parallel()
	r := hostReport("[vip-unreachable-from-here] [no-such-finding]")
	root := parse(t, page.ForHost(page.Host{Status: r, Check: &result.Report{
		Outcome: report.CheckProblem, Checks: []result.Result{{Name: "dns", Outcome: report.CheckProblem, Findings: []findings.Finding{
			findings.New(findings.DNSNoRecord, nil), findings.New(findings.DNSNoRecord, nil),
		}}},
	}}, now))
	links, ids := map[string]int{}, map[string]int{}
	for n := range root.Descendants() {
		ids[attributes(n)["id"]]++
		if n.Data == "a" {
			links[attributes(n)["href"]+" "+n.FirstChild.Data]++
		}
	}
	if links["#problem-dns-no-record dns-no-record"] != 2 || links["#problem-no-such-finding no-such-finding"] != 0 ||
		links["#problem-vip-unreachable-from-here vip-unreachable-from-here"] < 3 {
		t.Errorf("%v", links)
	}
	if ids["problem-dns-no-record"] != 1 || ids["problem-vip-unreachable-from-here"] != 1 {
		t.Errorf("%v", ids)
	}
}

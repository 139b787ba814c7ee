// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"iter"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/packets"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The terminal of the picture.
const (
	columns    = 100
	charWidth  = 8.4 // pixels
	lineHeight = 20
	margin     = 18
)

// maxPicture is the size of a picture that loads at once.
const maxPicture = 60 << 10

// TestPicture: the picture of the README shows what status and check print today, for a cluster in
// which a firewall of the node with the VIP drops the challenges.
func TestPicture(t *testing.T) {
	var got []byte
	synctest.Test(t, func(t *testing.T) { // no time passes while the commands run
		var lines []string
		for command, outputs := range firewalled(t) {
			installOC(t, outputs)
			printed := runLine(t, "", command, "--color", "always", "--width", strconv.Itoa(columns))
			if printed.err != "" || printed.out == "" {
				t.Fatalf("%+v", printed)
			}
			lines = append(lines, "\x1b[2m$\x1b[0m \x1b[1moc http01 "+command+"\x1b[0m")
			lines = append(lines, strings.Split(strings.TrimSpace(printed.out)+"\n", "\n")...)
		}
		got = drawTerminal(lines[:len(lines)-1])
	})
	const file = "../../docs/images/terminal.svg"
	if *update {
		must(t, os.WriteFile(file, got, 0o644))
	}
	if committed := must1(os.ReadFile(file))(t); string(committed) != string(got) {
		t.Errorf("%s does not show what the commands print: run make pictures", file)
	}
	if len(got) > maxPicture {
		t.Errorf("the picture has %d bytes", len(got))
	}
}

// firewalled returns commands, and what each of three nodes prints for them. The nodes on standby do
// not reach the VIP of master0, and the trace there shows the rule that drops their packets.
func firewalled(t *testing.T) iter.Seq2[string, map[string]string] {
	t.Helper()
	vip, now := netip.MustParseAddr("192.0.2.5"), time.Now()
	status, check := map[string]string{}, map[string]string{}
	observed := packets.Observation{Held: []netip.Addr{vip}, Port: 8888, Redirecting: true}
	for i := range 3 {
		name, address := fmt.Sprintf("master%d", i), netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
		r := report.Report{
			Time: now, Version: "v1.0.0",
			VIPs:          []report.VIP{{Address: vip, Family: "IPv4", State: report.VIPStandby, Since: now.Add(-50 * time.Hour)}},
			AcceptedHosts: report.AcceptedHosts{Names: []string{"api.paris.example.com"}, Source: report.HostsAPIName},
		}
		reason, message := report.Standby, "not on this host: 192.0.2.5"
		if i == 0 {
			reason, message = report.Serving, "holds 192.0.2.5"
			r.VIPs[0].State = report.VIPHeld
		} else {
			r.VIPTests = []report.VIPTest{{
				VIP: vip, Result: report.VIPTimedOut, Since: now.Add(-10 * time.Minute), Checked: now.Add(-4 * time.Second),
				Failures: 40, Cause: string(findings.VIPUnreachableFromHere),
			}}
			observed.Packets = append(observed.Packets, report.TracedPacket{
				Client: netip.AddrPortFrom(address, 40000), VIP: netip.AddrPortFrom(vip, 80), Redirected: true,
				TranslatedTo: 8888, End: report.TraceDropped, Steps: []report.TraceStep{{
					Family: "inet", Table: "site", Chain: "input", Hook: "input", Verdict: "drop", Port: 8888, Handle: 7,
					Rule: "tcp dport != { 22, 80, 443, 6443 } drop",
				}},
			})
		}
		r.Conditions = []report.Condition{
			report.Condition{Type: report.ConditionType}.Next(true, reason, message, now.Add(-50*time.Hour)),
		}
		status[name] = encode(t, r.WithEmptyLists())
		fails := result.Found(findings.ProxyUnreachable, findings.Values{
			"endpoint": netip.AddrPortFrom(vip, 80).String(), "how": "the request timed out",
		})
		fails.Name, fails.Addresses = "self-check", []netip.Addr{address}
		check[name] = checked(t, name, fails)
	}
	dropped := observed.Check()
	dropped.Name, dropped.Addresses = "ruleset", []netip.Addr{netip.MustParseAddr("192.0.2.10")}
	check["master0"] = checked(t, "master0", dropped)
	return func(yield func(string, map[string]string) bool) {
		_ = yield("status", status) && yield("check", check)
	}
}

// checked returns what a node prints if one check found something.
func checked(t *testing.T, name string, found result.Result) string {
	t.Helper()
	all := []result.Result{found}
	for _, entry := range diagnose.List() {
		if entry.Name != found.Name {
			all = append(all, result.Result{Name: entry.Name, Outcome: report.CheckOK})
		}
	}
	return encode(t, result.NewReport(result.Conditions{Host: name, Privileged: true}, all, nil))
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text := must1(json.Marshal(v))(t)
	return string(text)
}

// sgr matches the beginning of a style.
var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// drawTerminal draws lines as a terminal of these columns shows them. Each run of characters of one
// style has its place and its width, so that the columns are aligned in every font.
func drawTerminal(lines []string) []byte {
	classes := map[string]string{"1": "b", "2": "f", "31": "r", "32": "g", "33": "y"}
	var drawn strings.Builder
	row := 0
	for _, line := range lines {
		style, column := "", 0
		for rest := line; rest != ""; {
			at := sgr.FindStringSubmatchIndex(rest)
			if at != nil && at[0] == 0 {
				style, rest = classes[rest[at[2]:at[3]]], rest[at[1]:]
				continue
			}
			run := rest
			if at != nil {
				run = rest[:at[0]]
			}
			if room := columns - column; utf8.RuneCountInString(run) > room {
				run = string([]rune(run)[:room])
			}
			rest = rest[len(run):]
			width := utf8.RuneCountInString(run)
			if strings.TrimSpace(run) != "" {
				fmt.Fprintf(&drawn, `<text class="%s" x="%.1f" y="%d" textLength="%.1f">%s</text>`+"\n", style,
					margin+float64(column)*charWidth, margin+row*lineHeight+15, float64(width)*charWidth, html.EscapeString(run))
			}
			if column += width; column == columns && rest != "" {
				row, column = row+1, 0
			}
		}
		row++
	}
	const width = 2*margin + columns*charWidth
	height := 2*margin + row*lineHeight
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %d" role="img" aria-label="%s">
<!-- make pictures -->
<style>
text{white-space:pre;font:14px ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,monospace;fill:#d8dee6}
.b{font-weight:700;fill:#ffffff}.f{fill:#8d98a5}.r{fill:#ff8079}.g{fill:#5cc98c}.y{fill:#e6b450}
</style>
<rect width="%g" height="%d" rx="8" fill="#161c24" stroke="#4a5563"/>
%s</svg>
`, width, height, "The output of oc http01 status and oc http01 check", width, height, drawn.String())
}

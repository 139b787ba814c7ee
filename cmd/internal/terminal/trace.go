// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Trace is a trace as text: a block for each packet, the result, and the commands
// that let dropped packets pass.
func Trace(t report.Trace) Text {
	return func(p *page) { p.writeTrace(t) }
}

// ClusterTrace is the traces of several nodes as text.
func ClusterTrace(c report.ClusterTrace) Text {
	return func(p *page) {
		for i, n := range c.Nodes {
			if i > 0 {
				p.writeLine()
			}
			if n.Trace == nil {
				p.writeRow("Trace", section.Bad, fmt.Sprintf("none on %s: %s", n.Name, n.Problem))
				p.writeRow("Fix", "", n.Remediation)
				continue
			}
			p.writeTrace(*n.Trace)
		}
	}
}

func (p *page) writeTrace(t report.Trace) {
	p.writeRow("Trace", "",
		fmt.Sprintf("port 80 of %s on %s, %.1f s", result.JoinAddresses(t.VIPs), t.Host, t.DurationMs/1000))
	var devices []string
	for _, d := range t.Devices {
		devices = append(devices, fmt.Sprintf("%s (%s)", d.Name, d.Kind))
	}
	p.writeRow("Devices", "", cmp.Or(strings.Join(devices, ", "), "none"))
	for _, one := range t.Packets {
		p.writePacket(one)
	}
	p.writeLine()
	p.writeTraceResult(t)
}

func (p *page) writeTraceResult(t report.Trace) {
	failed := 0
	var fixes []string
	for _, one := range t.Packets {
		if one.Failed() {
			failed++
		}
		if one.Fix != "" && !slices.Contains(fixes, one.Fix) {
			fixes = append(fixes, one.Fix)
		}
	}
	message := t.Message
	switch {
	case failed > 0:
		p.writeRow("Result", section.Bad,
			fmt.Sprintf("%d of %d packets were dropped, lost or not redirected on this host", failed, len(t.Packets)))
	case len(t.Packets) > 0:
		p.writeRow("Result", section.Good,
			fmt.Sprintf("no packet was dropped, lost or not redirected (%d traced)", len(t.Packets)))
	default:
		p.writeRow("Result", section.Warning, message)
		message = ""
	}
	if message != "" {
		p.writeRow("Note", section.Warning, message)
	}
	if t.Lost > 0 {
		p.writeRow("Note", section.Warning, fmt.Sprintf("the kernel dropped %d events, because there were too many", t.Lost))
	}
	p.writeCommands(pad("Fix:", labelWidth), fixes)
}

func (p *page) writePacket(one report.TracedPacket) {
	when := one.Time.UTC().Format("15:04:05.000000")
	from := "unknown link"
	switch {
	case one.Local:
		from = "this host"
	case len(one.Steps) > 0:
		from = one.Steps[0].Device
	}
	p.writeLine()
	if one.Reply {
		p.writeLine(span{fmt.Sprintf("%s  %s from %v", when, one.Flags, one.VIP), bold})
		p.writeRow("Reply to", "", one.Client.String())
	} else {
		p.writeLine(span{fmt.Sprintf("%s  %s to %v", when, one.Flags, one.VIP), bold})
		p.writeRow("Arrival", "", fmt.Sprintf("%s, from %v", from, one.Client))
	}
	p.writeSteps(one)
	level := section.Good
	switch {
	case one.Failed():
		level = section.Bad
	case one.End == report.TraceUnknown:
		level = section.Warning
	}
	p.writeRow("End", level, one.Message)
}

// markerTable begins the names of the tables that a trace adds.
const markerTable = "http01-trace-"

func (p *page) writeSteps(one report.TracedPacket) {
	shown := slices.DeleteFunc(slices.Clone(one.Steps), func(s report.TraceStep) bool {
		return !p.view.Wide && s.Verdict != "drop" && (s.Own || strings.HasPrefix(s.Table, markerTable))
	})
	width := 0
	for _, s := range shown {
		width = max(width, len(chainName(s)))
	}
	port := one.VIP.Port()
	if one.Reply && len(one.Steps) > 0 {
		port = one.Steps[0].Port
	}
	translate := func(to uint16) {
		if to != 0 && to != port {
			p.writeRow("Translation", "", fmt.Sprintf("port %d to port %d", port, to))
			port = to
		}
	}
	for _, s := range shown {
		translate(s.Port)
		text := pad(chainName(s), width+gap) + s.Verdict
		if p.view.Wide {
			text += fmt.Sprintf("  priority %d", s.Priority)
			if s.Handle > 0 {
				text += fmt.Sprintf("  %s handle %d  %s", s.RuleChain, s.Handle, s.Rule)
			}
		}
		p.writeRow(capitalize(s.Hook), "", text)
	}
	if !one.Reply {
		translate(one.TranslatedTo)
	}
}

func chainName(s report.TraceStep) string {
	return printable.Line(s.Family + " " + s.Table + " " + s.Chain)
}

func capitalize(s string) string {
	for i, r := range s {
		return string(unicode.ToUpper(r)) + s[i+len(string(r)):]
	}
	return s
}

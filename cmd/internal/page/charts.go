// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// lifetimes returns a bar for each certificate: how much of its lifetime has passed. A certificate
// that is presented on several addresses has one bar.
func lifetimes(id string, all []report.Certificate, at time.Time) parts {
	var bars parts
	for i, c := range verdict.DistinctCertificates(all) {
		if c.Error != "" {
			continue
		}
		kind, left := "held", report.Age(c.NotAfter.Sub(at))+" left of "+report.Age(c.NotAfter.Sub(c.NotBefore))
		for _, f := range verdict.Certificate(c, at) {
			kind = string(section.OfProblem(string(f.Level)))
		}
		whole := window{c.NotBefore, c.NotAfter}
		passed := whole.share(at)
		if passed == 1 {
			left = "expired " + report.Age(at.Sub(c.NotAfter)) + " ago"
		}
		subject := cmp.Or(c.Name, "clients without SNI")
		drawing := image(fmt.Sprintf("%s-life-%d", id, i), "lane", subject+": "+left,
			el("rect", class("bar "+kind), attr("width", "100%"), attr("height", "100%")))
		if passed < 1 {
			el("rect", class("bar spent"), attr("width", percent(passed)), attr("height", "100%")).addTo(&drawing)
		}
		bars = append(bars, head(subject, left, ", until "+clock(c.NotAfter)+" UTC"), drawing)
	}
	if len(bars) == 0 {
		return nil
	}
	return parts{el("div", class("timeline"), bars)}
}

// maxBars bounds the bars of a chart.
const maxBars = 20

// responseTimes is a chart of the last challenges. A failed one is red.
func responseTimes(id string, all []report.RecentChallenge) element {
	all = all[max(0, len(all)-maxBars):]
	duration := func(c report.RecentChallenge) float64 { return max(0, c.DurationMS) }
	longest := duration(slices.MaxFunc(all, func(a, b report.RecentChallenge) int {
		return cmp.Compare(a.DurationMS, b.DurationMS)
	}))
	failed := 0
	drawing := image(id+"-times", "chart", "Response times of the last challenges, oldest first")
	for i, c := range all {
		kind := "held"
		if section.OfChallenge(c) == section.Bad {
			kind = "bad"
			failed++
		}
		height := max(minBarShare, duration(c)/max(longest, 1))
		el("svg", attr("x", percent(float64(i)/maxBars)), attr("width", percent(1.0/maxBars)), attr("height", "100%"),
			el("title", text(fmt.Sprintf("%s UTC: %d in %.1f ms", clock(c.Time), c.Status, c.DurationMS))),
			el("rect", class("bar "+kind), attr("x", "10%"), attr("width", "80%"), attr("y", percent(1-height)),
				attr("height", percent(height)))).addTo(&drawing)
	}
	note := ""
	if failed > 0 {
		note = fmt.Sprintf(", %d failed (red)", failed)
	}
	last := len(all) - 1
	return el("div", class("timeline"),
		head(report.Count(len(all), "challenge"), fmt.Sprintf("at most %.1f ms", longest), note), drawing,
		el("p", class("axis"), el("span", text(clock(all[0].Time))), el("span", text(clock(all[last].Time)+" UTC"))))
}

// image is a drawing with a name for screen readers.
func image(id, classes, title string, contents ...part) element {
	return el("svg", class(classes), attr("role", "img"), attr("aria-labelledby", id+"-title"),
		el("title", attr("id", id+"-title"), text(title)), parts(contents))
}

// head is the line above a drawing.
func head(title, state, more string) element {
	return el("div", class("lane-head"), el("span", text(title)), el("span", el("b", text(state)), muted(more)))
}

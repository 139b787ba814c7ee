// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Dimensions of the chart in pixels.
const (
	chartWidth = 900
	plotLeft   = 90
	plotWidth  = chartWidth - plotLeft - 20
	plotHeight = 110
	panelEvery = plotHeight + 60
	panelsTop  = 60
)

// Colours of the chart. The dashes and the words of a caption carry the same information.
const (
	ink     = "#222222"
	curve   = "#0072b2"
	ignored = "#999999" // samples of the warm-up
	fitted  = "#d55e00"
)

// Chart returns the series as an SVG image: one diagram for each, from 0, with its trend.
// The trend is that of the samples after the warm-up, as in the verdict. The samples of the
// warm-up are grey.
func Chart(title string, warmUp float64, all []Series) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, chartWidth, panelsTop+len(all)*panelEvery)
	printf(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	printf(`<text x="%d" y="26" font-size="16" fill="%s">%s</text>`, plotLeft, ink, html.EscapeString(title))
	for i, s := range all {
		panel(printf, s, warmUp, float64(panelsTop+i*panelEvery))
	}
	printf(`</svg>`)
	return b.String()
}

func panel(printf func(string, ...any), s Series, warmUp, top float64) {
	heading := s.Name
	if s.Unit != "" {
		heading += " in " + s.Unit
	}
	counted := s.After(warmUp)
	trend, known := counted.Trend()
	if known {
		heading += ": " + trend.String()
	}
	printf(`<text x="%d" y="%.0f" font-size="13" fill="%s">%s</text>`, plotLeft, top-6, ink, html.EscapeString(heading))
	printf(`<rect x="%d" y="%.0f" width="%d" height="%d" fill="none" stroke="#dddddd"/>`, plotLeft, top, plotWidth, plotHeight)
	if len(s.Value) == 0 {
		return
	}
	end, most := s.Hours[len(s.Hours)-1], slices.Max(s.Value)
	x := func(hours float64) float64 { return plotLeft + plotWidth*part(hours, end) }
	y := func(value float64) float64 { return top + plotHeight*(1-part(value, most*1.1)) }
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="%s">%.4g</text>`, plotLeft-8, y(most)+4, ink, most)
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="%s">0</text>`, plotLeft-8, top+plotHeight, ink)
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="%s">%.2f h</text>`, plotLeft+plotWidth, top+plotHeight+16, ink, end)
	points := make([]string, len(s.Value))
	for i := range s.Value {
		points[i] = fmt.Sprintf("%.1f,%.1f", x(s.Hours[i]), y(s.Value[i]))
	}
	line := func(colour string, points []string) {
		if len(points) > 0 {
			printf(`<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`, colour, strings.Join(points, " "))
		}
	}
	before := len(s.Value) - len(counted.Value)
	line(ignored, points[:before])
	line(curve, points[before:])
	if before > 0 {
		printf(`<line x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f" stroke="%s"/>`, x(warmUp), top, x(warmUp), top+plotHeight, ignored)
		printf(`<text x="%.1f" y="%.0f" text-anchor="end" fill="%s">warm-up</text>`, x(warmUp)-4, top+plotHeight-4, ink)
	}
	if known {
		printf(`<line x1="%.1f" y1="%.1f" x2="%d" y2="%.1f" stroke="%s" stroke-dasharray="4 3"/>`,
			x(counted.Hours[0]), y(trend.Intercept+trend.Slope*counted.Hours[0]), plotLeft+plotWidth, y(trend.Intercept+trend.Slope*end), fitted)
	}
}

// part returns which part of all a value is, from 0 to 1.
func part(value, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return min(max(value/all, 0), 1)
}

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

// Chart returns the series as an SVG image: one diagram for each, from 0, with its trend.
func Chart(title string, all []Series) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, chartWidth, panelsTop+len(all)*panelEvery)
	printf(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	printf(`<text x="%d" y="26" font-size="16" fill="#222222">%s</text>`, plotLeft, html.EscapeString(title))
	for i, s := range all {
		panel(printf, s, float64(panelsTop+i*panelEvery))
	}
	printf(`</svg>`)
	return b.String()
}

func panel(printf func(string, ...any), s Series, top float64) {
	heading := s.Name
	if s.Unit != "" {
		heading += " in " + s.Unit
	}
	trend, known := s.Trend()
	if known {
		heading += ": " + trend.String()
	}
	printf(`<text x="%d" y="%.0f" font-size="13" fill="#222222">%s</text>`, plotLeft, top-6, html.EscapeString(heading))
	printf(`<rect x="%d" y="%.0f" width="%d" height="%d" fill="none" stroke="#dddddd"/>`, plotLeft, top, plotWidth, plotHeight)
	if len(s.Value) == 0 {
		return
	}
	end, most := s.Hours[len(s.Hours)-1], slices.Max(s.Value)
	x := func(hours float64) float64 { return plotLeft + plotWidth*part(hours, end) }
	y := func(value float64) float64 { return top + plotHeight*(1-part(value, most*1.1)) }
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="#222222">%.4g</text>`, plotLeft-8, y(most)+4, most)
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="#222222">0</text>`, plotLeft-8, top+plotHeight)
	printf(`<text x="%d" y="%.0f" text-anchor="end" fill="#222222">%.2f h</text>`, plotLeft+plotWidth, top+plotHeight+16, end)
	points := make([]string, len(s.Value))
	for i := range s.Value {
		points[i] = fmt.Sprintf("%.1f,%.1f", x(s.Hours[i]), y(s.Value[i]))
	}
	printf(`<polyline fill="none" stroke="#0072b2" stroke-width="1.5" points="%s"/>`, strings.Join(points, " "))
	if known {
		printf(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#d55e00" stroke-dasharray="4 3"/>`,
			plotLeft, y(trend.Intercept), plotLeft+plotWidth, y(trend.Intercept+trend.Slope*end))
	}
}

// part returns which part of all a value is, from 0 to 1.
func part(value, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return min(max(value/all, 0), 1)
}

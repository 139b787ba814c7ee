// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strings"
)

// Dimensions of the chart in pixels.
const (
	chartWidth = 860
	plotLeft   = 70
	plotWidth  = chartWidth - plotLeft - 20
	plotHeight = 190
	panelEvery = plotHeight + 80
	legendTop  = 46
)

// colour returns a colour of the palette of Okabe and Ito, which readers with any colour
// vision can distinguish.
func colour(key string) string {
	return cmp.Or(map[string]string{
		"http01-proxyd":        "#0072b2",
		"http01-proxyd-tls":    "#56b4e9",
		"http01-proxyd-nginx":  "#999999",
		"http01-proxyd-before": "#000000",
		"haproxy":              "#e69f00",
		"haproxy-1":            "#f0e442",
		"haproxy-tls":          "#8c6d31",
		"nginx":                "#009e73",
		"caddy":                "#cc79a7",
		"poc":                  "#d55e00",
	}[key], "#888888")
}

// panel is one diagram of all proxies by number of connections.
type panel struct {
	title   string
	value   func(Row) float64 // 0 is not drawn
	log     bool              // logarithmic scale
	decimal int
}

// Chart is the comparison as an SVG image.
func (r Report) Chart() string {
	panels := []panel{
		{"requests a second (more is better)", func(row Row) float64 { return row.Rate }, false, 0},
		{"p99 latency in ms, logarithmic (less is better)", func(row Row) float64 { return row.P99 }, true, 1},
		{"CPU µs a request, user and system (less is better)", func(row Row) float64 { return row.Time.Proxy }, false, 0},
	}
	var s svg
	height := legendTop + 30 + len(panels)*panelEvery
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, chartWidth, height)
	s.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`, chartWidth, height)
	s.text(plotLeft, 24, "start", 16, "Proxies for HTTP-01 challenges, one-shot connections")
	s.legend(r.Rows)
	for i, p := range panels {
		s.panel(r.Rows, p, float64(legendTop+60+i*panelEvery))
	}
	s.printf(`</svg>`)
	return s.String()
}

type svg struct{ strings.Builder }

func (s *svg) printf(format string, args ...any) { fmt.Fprintf(&s.Builder, format+"\n", args...) }

func (s *svg) text(x, y float64, anchor string, size int, text string) {
	s.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="#222222">%s</text>`, x, y, anchor, size, html.EscapeString(text))
}

func (s *svg) legend(rows []Row) {
	x := float64(plotLeft)
	for _, d := range distinct(rows, keyOf) {
		s.printf(`<rect x="%.1f" y="%d" width="12" height="12" fill="%s"/>`, x, legendTop-10, colour(d.Key))
		s.text(x+17, legendTop, "start", 12, d.Proxy)
		x += 36 + 6.6*float64(len(d.Proxy))
	}
}

func (s *svg) panel(rows []Row, p panel, top float64) {
	proxies, groups := distinct(rows, keyOf), distinct(rows, connectionsOf)
	if len(groups) == 0 {
		return
	}
	scale := scaleFor(rows, p)
	bottom := top + plotHeight
	s.text(plotLeft, top-8, "start", 13, p.title)
	for _, tick := range scale.ticks {
		y := bottom - plotHeight*scale.part(tick)
		s.printf(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`, plotLeft, plotLeft+plotWidth, y, y)
		s.text(plotLeft-8, y+4, "end", 11, short(tick))
	}
	group := float64(plotWidth) / float64(len(groups))
	slot := group * 0.86 / float64(len(proxies))
	for g, first := range groups {
		connections := first.Connections
		left := plotLeft + group*(float64(g)+0.07)
		s.text(left+slot*float64(len(proxies))/2, bottom+18, "middle", 12, counted(connections))
		for d, proxy := range proxies {
			for _, row := range rows {
				if v := p.value(row); row.Key == proxy.Key && row.Connections == connections && v > 0 {
					s.mark(row, p, left+slot*float64(d), slot, bottom, bottom-plotHeight*scale.part(v))
				}
			}
		}
	}
}

// mark draws one value: a bar from zero, or a dot on a logarithmic scale.
func (s *svg) mark(row Row, p panel, x, slot, bottom, y float64) {
	label := fmt.Sprintf("%s, %s: %.*f", row.Proxy, counted(row.Connections), p.decimal, p.value(row))
	if p.log {
		s.printf(`<circle cx="%.1f" cy="%.1f" r="5" fill="%s"><title>%s</title></circle>`, x+slot/2, y, colour(row.Key), html.EscapeString(label))
	} else {
		s.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`,
			x+1, y, slot-2, bottom-y, colour(row.Key), html.EscapeString(label))
	}
	s.text(x+slot/2, y-7, "middle", 9, short(p.value(row)))
}

// scale maps values to parts of the plot's height.
type scale struct {
	ticks     []float64
	low, high float64
	log       bool
}

func (s scale) part(v float64) float64 {
	if s.log {
		return math.Log10(v/s.low) / math.Log10(s.high/s.low)
	}
	return v / s.high
}

// scaleFor starts at zero, or on a logarithmic scale at the decade below all values.
func scaleFor(rows []Row, p panel) scale {
	low, high := math.Inf(1), 0.0
	for _, row := range rows {
		if v := p.value(row); v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		return scale{high: 1}
	}
	if p.log {
		s := scale{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high))), log: true}
		if s.low == s.high {
			s.high *= 10
		}
		for tick := s.low; tick <= s.high*1.001; tick *= 10 {
			s.ticks = append(s.ticks, tick)
		}
		return s
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for high/step < 4 {
		step /= 2
	}
	s := scale{high: step * math.Ceil(high/step*1.02)}
	for tick := 0.0; tick <= s.high*1.001; tick += step {
		s.ticks = append(s.ticks, tick)
	}
	return s
}

// short formats a number with at most five characters.
func short(v float64) string {
	switch {
	case v >= 10000:
		return fmt.Sprintf("%.1fk", v/1000)
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}

func counted(connections int) string {
	if connections == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", connections)
}

// distinct returns the first row of each value of a key, in the order of the rows.
func distinct[K comparable](rows []Row, key func(Row) K) []Row {
	var out []Row
	seen := map[K]bool{}
	for _, row := range rows {
		if !seen[key(row)] {
			seen[key(row)] = true
			out = append(out, row)
		}
	}
	return out
}

func keyOf(row Row) string { return row.Key }

func connectionsOf(row Row) int { return row.Connections }

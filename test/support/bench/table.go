// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// grid is a table with aligned columns, in a block of Markdown. The first row is the header.
type grid struct {
	text  int // number of text columns from the left; the others are numbers
	cells [][]string
}

func (g *grid) add(cells ...string) { g.cells = append(g.cells, cells) }

// String returns the table, one row a line.
func (g *grid) String() string {
	if len(g.cells) == 0 {
		return ""
	}
	width := make([]int, len(g.cells[0]))
	for _, row := range g.cells {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	out.WriteString("```text\n")
	for _, row := range g.cells {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < g.text {
				line.WriteString(cell + space + "  ")
			} else {
				line.WriteString(space + cell + "  ")
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	out.WriteString("```\n")
	return out.String()
}

// Table compares the speed of the proxies.
func (r Report) Table() string {
	g := grid{text: 1}
	g.add("proxy", "connections", "requests/s", "to HAProxy", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs/request")
	for _, row := range r.Rows {
		name := row.Proxy
		if row.Unfiltered {
			name += " ¹"
		}
		if row.Errors > 0 {
			name += fmt.Sprintf(" ⚠ %d (%.2f %%)", row.Errors, 100*float64(row.Errors)/float64(max(row.Requests, row.Errors)))
		}
		g.add(name, strconv.Itoa(row.Connections), thousands(int(row.Rate)), number(row.Ratio, 2),
			number(row.P50, 2), number(row.P99, 2), number(row.P999, 2), number(row.CPU, 1))
	}
	return g.String()
}

// MemoryTable compares the memory of the proxies, which is the same in all rows of a proxy.
func (r Report) MemoryTable() string {
	g := grid{text: 1}
	g.add("proxy", "idle", thousands(r.Options.HalfHeads)+" open")
	for _, row := range r.Rows {
		if row.Connections != r.Rows[0].Connections || row.Half == 0 {
			continue
		}
		half := number(row.Half, 1)
		if row.Open < r.Options.HalfHeads {
			half = fmt.Sprintf("%s (%s left open)", half, thousands(row.Open))
		}
		g.add(row.Proxy, number(row.Idle, 1), half)
	}
	return g.String()
}

// CostTable returns the effect of the table on the API.
func (r Report) CostTable() string {
	g := grid{text: 1}
	if len(r.Costs) == 0 {
		return ""
	}
	g.add("where", "pairs", "connections/s without", "with", "ratio", "95 % interval", "half-width", "contains 1.00",
		"packets", "examined")
	for _, c := range r.Costs {
		g.add(c.Environment, strconv.Itoa(c.Pairs), thousands(int(c.Without)), thousands(int(c.With)),
			number(c.Ratio.Mean, 4), fmt.Sprintf("%.4f–%.4f", c.Ratio.Low, c.Ratio.High),
			fmt.Sprintf("± %.2f %%", 100*c.Ratio.HalfWidth()), yesOrNo(c.Ratio.Contains(1)),
			number(c.Packets, 2), number(c.Examined, 2))
	}
	return g.String()
}

// number formats a value, and returns "" for a value that was not measured.
func number(v float64, digits int) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// thousands formats a count of four digits and more as 1,234.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func counted(connections int) string {
	if connections == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", connections)
}

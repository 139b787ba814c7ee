// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write the dashboard for the console")

// The console reads the model of Grafana 5 (openshift/monitoring-plugin, legacy-dashboards): rows of twelve
// columns, and panels of the types graph, singlestat and table. It ignores every other type.
type consoleDashboard struct {
	Title      string         `json:"title"`
	Tags       []string       `json:"tags"`
	Templating map[string]any `json:"templating"`
	Rows       []consoleRow   `json:"rows"`
}

type consoleRow struct {
	Title     string         `json:"title"`
	ShowTitle bool           `json:"showTitle"`
	Panels    []consolePanel `json:"panels"`
}

type consolePanel struct {
	ID        int             `json:"id"`
	Type      string          `json:"type"`
	Title     string          `json:"title"`
	Span      int             `json:"span"`
	Format    string          `json:"format,omitempty"`
	Decimals  *int            `json:"decimals,omitempty"`
	Legend    map[string]bool `json:"legend,omitempty"`
	YAxes     []consoleAxis   `json:"yaxes,omitempty"`
	Transform string          `json:"transform,omitempty"`
	Styles    []consoleStyle  `json:"styles,omitempty"`
	Targets   []target        `json:"targets"`
}

type consoleAxis struct {
	Format string `json:"format"`
}

// consoleStyle is a column of a table. Only columns with an alias are shown.
type consoleStyle struct {
	Alias    string `json:"alias"`
	Pattern  string `json:"pattern"`
	Type     string `json:"type"`
	Decimals *int   `json:"decimals,omitempty"`
	Unit     string `json:"unit,omitempty"`
}

// forConsole converts the dashboard of Grafana.
func forConsole(d dashboard) consoleDashboard {
	c := consoleDashboard{Title: d.Title, Tags: d.Tags, Templating: map[string]any{"list": []any{}}}
	for _, p := range d.Panels {
		if p.Type == "row" {
			c.Rows = append(c.Rows, consoleRow{Title: p.Title, ShowTitle: true})
			continue
		}
		row := &c.Rows[len(c.Rows)-1]
		row.Panels = append(row.Panels, consolePanelOf(p))
	}
	return c
}

func consolePanelOf(p panel) consolePanel {
	const gridColumns, consoleColumns = 24, 12
	c := consolePanel{ID: p.ID, Title: p.Title, Span: p.GridPos.W * consoleColumns / gridColumns, Targets: p.Targets}
	defaults := p.FieldConfig.Defaults
	switch p.Type {
	case "stat":
		c.Type, c.Format, c.Decimals = "singlestat", defaults.Unit, &defaults.Decimals
	case "timeseries":
		c.Type, c.Legend = "graph", map[string]bool{"show": true}
		c.YAxes = []consoleAxis{{defaults.Unit}}
	case "table":
		c.Type, c.Transform = "table", "table"
		columns := p.Transformations[0].Options
		for _, name := range slices.SortedFunc(maps.Keys(columns.RenameByName), func(a, b string) int {
			return columns.IndexByName[a] - columns.IndexByName[b]
		}) {
			style := consoleStyle{Alias: columns.RenameByName[name], Pattern: name, Type: "string"}
			if name == "Value" {
				style.Type, style.Decimals, style.Unit = "number", &defaults.Decimals, defaults.Unit
			}
			c.Styles = append(c.Styles, style)
		}
	}
	return c
}

// TestConsoleDashboardIsCurrent: the console shows the same panels as Grafana. `make dashboard` writes them.
func TestConsoleDashboardIsCurrent(t *testing.T) {
	const file = "dashboard.yaml"
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("    ", "  ")
	must(t, encoder.Encode(forConsole(readDashboard(t))))
	old := string(shippedFile(t, file))
	head, _, found := strings.Cut(old, "\ndata:\n")
	if !found {
		t.Fatalf("%s has no data", file)
	}
	current := head + "\ndata:\n  http01-proxyd.json: |\n    " + text.String()
	if *update {
		must(t, os.WriteFile(filepath.Join(manifests, file), []byte(current), 0o600))
	} else if diff := gocmp.Diff(current, old); diff != "" {
		t.Errorf("run `make dashboard` (-Grafana +console):\n%s", diff)
	}
	var c corev1.ConfigMap
	decodeStrict(t, []byte(current), &c)
	if c.Namespace != "openshift-config-managed" || c.Labels["console.openshift.io/dashboard"] != "true" {
		t.Errorf("the console does not read %s/%s with labels %v", c.Namespace, c.Name, c.Labels)
	}
	// The console reads any one key of the data.
	if len(c.Data) != 1 {
		t.Errorf("%d keys in the data", len(c.Data))
	}
}

// TestDashboardFitsTheConsole holds that the console supports the panels and their units (monitoring-plugin,
// LegacyDashboard.tsx and units.ts), and shows the columns of tables.
func TestDashboardFitsTheConsole(t *testing.T) {
	units := []string{"short", "s", "percentunit"}
	for _, row := range forConsole(readDashboard(t)).Rows {
		if row.Title == "" || len(row.Panels) == 0 {
			t.Errorf("row %q has %d panels", row.Title, len(row.Panels))
		}
		for _, p := range row.Panels {
			unit := p.Format
			switch p.Type {
			case "singlestat":
			case "graph":
				unit = p.YAxes[0].Format
			case "table":
				unit = cmp.Or(p.Styles[len(p.Styles)-1].Unit, "short") // the last column may be a text
				if len(p.Styles) < 2 {
					t.Errorf("%s: columns %+v", p.Title, p.Styles)
				}
			default:
				t.Errorf("%s: the console does not support this panel", p.Title)
			}
			if !slices.Contains(units, unit) || p.Span < 3 || p.Span > 12 {
				t.Errorf("%s: unit %q, span %d", p.Title, unit, p.Span)
			}
		}
	}
}

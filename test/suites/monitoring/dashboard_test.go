// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

type panel struct {
	ID      int              `json:"id"`
	Type    string           `json:"type"`
	Title   string           `json:"title"`
	Span    int              `json:"span"`
	Styles  []map[string]any `json:"styles"`
	Targets []struct {
		Expr   string `json:"expr"`
		RefID  string `json:"refId"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

type dashboard struct {
	Title string `json:"title"`
	UID   string `json:"uid"`
	Rows  []struct {
		Title  string  `json:"title"`
		Panels []panel `json:"panels"`
	} `json:"rows"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	must(t, json.Unmarshal(shippedFile(t, "grafana/http01-proxyd.json"), &d))
	return d
}

func queries(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, row := range readDashboard(t).Rows {
		for _, p := range row.Panels {
			for _, target := range p.Targets {
				all = append(all, target.Expr)
			}
		}
	}
	return all
}

// TestDashboardCopiesMatch holds that the console and Grafana show the same dashboard.
func TestDashboardCopiesMatch(t *testing.T) {
	var c corev1.ConfigMap
	decodeStrict(t, shippedFile(t, "dashboard.yaml"), &c)
	if c.Namespace != "openshift-config-managed" || c.Labels["console.openshift.io/dashboard"] != "true" {
		t.Errorf("the console does not read %s/%s with labels %v", c.Namespace, c.Name, c.Labels)
	}
	// The console reads any one key of the data.
	if len(c.Data) != 1 {
		t.Errorf("%d keys in the data", len(c.Data))
	}
	if diff := cmp.Diff(string(shippedFile(t, "grafana/http01-proxyd.json")), c.Data["http01-proxyd.json"]); diff != "" {
		t.Errorf("run `make dashboard` (-Grafana +console):\n%s", diff)
	}
}

// TestDashboardFitsTheConsole holds that the console supports the panels
// (monitoring-plugin, LegacyDashboard.tsx): only these types, in rows of width twelve.
func TestDashboardFitsTheConsole(t *testing.T) {
	ids := map[int]bool{}
	for _, row := range readDashboard(t).Rows {
		if row.Title == "" || len(row.Panels) == 0 {
			t.Errorf("row %q has %d panels", row.Title, len(row.Panels))
		}
		for _, p := range row.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: id %d is missing or used twice", p.Title, p.ID)
			}
			ids[p.ID] = true
			if !slices.Contains([]string{"graph", "singlestat", "table"}, p.Type) {
				t.Errorf("%s: the console does not support panels of type %s", p.Title, p.Type)
			}
			if p.Title == "" || p.Span < 1 || p.Span > 12 || len(p.Targets) == 0 {
				t.Errorf("panel %d: %q, span %d, %d queries", p.ID, p.Title, p.Span, len(p.Targets))
			}
			if p.Type == "table" && len(p.Styles) == 0 {
				t.Errorf("%s: the console does not show tables without styles", p.Title)
			}
			for _, target := range p.Targets {
				if target.Expr == "" || target.RefID == "" || p.Type == "graph" && target.Legend == "" {
					t.Errorf("%s: %+v", p.Title, target)
				}
			}
		}
	}
	if len(ids) < 10 {
		t.Errorf("%d panels, want more", len(ids))
	}
}

// TestQueriesParse holds that Prometheus can parse every query.
func TestQueriesParse(t *testing.T) {
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var recordings []recording
	for _, q := range queries(t) {
		recordings = append(recordings, recording{"dashboard:query", q})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": recordings}}})
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, ruleFile), text, 0o600))
	promtool(t, dir, "check", "rules", "--lint=none", ruleFile)
}

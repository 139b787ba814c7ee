// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	schema "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panel is what the tests read of a panel of Grafana.
type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		W int `json:"w"`
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit     string `json:"unit"`
			Decimals int    `json:"decimals"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets         []target `json:"targets"`
	Transformations []struct {
		ID      string `json:"id"`
		Options struct {
			IndexByName  map[string]int    `json:"indexByName"`
			RenameByName map[string]string `json:"renameByName"`
		} `json:"options"`
	} `json:"transformations"`
}

type target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat,omitempty"`
}

type dashboard struct {
	Title  string   `json:"title"`
	Tags   []string `json:"tags"`
	Panels []panel  `json:"panels"`
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
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	return all
}

// grafanaDashboard is the classic model, which all releases import. Grafana 13 prefers another one for new
// dashboards, which older releases do not know.
type grafanaDashboard = schema.Dashboard //nolint:staticcheck // as above

// checkSchema decodes a dashboard with the types that Grafana generates from its own schema, its panels
// and the queries included. They reject unknown fields, and absent ones that are required.
func checkSchema(text []byte) error {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	var d grafanaDashboard
	// Without a mistake, the error is an empty list.
	var list cog.BuildErrors
	if err := d.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &list) || len(list) > 0) {
		return err
	}
	d = grafanaDashboard{}
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	return d.Validate()
}

// TestGrafanaSchema: the dashboard fits Grafana's schema and has its current version. A mistake in each
// part of it is found.
func TestGrafanaSchema(t *testing.T) {
	text := shippedFile(t, "grafana/http01-proxyd.json")
	if err := checkSchema(text); err != nil {
		t.Error(err)
	}
	var d grafanaDashboard
	must(t, json.Unmarshal(text, &d))
	if current := schema.NewDashboard().SchemaVersion; d.SchemaVersion != current {
		t.Errorf("schemaVersion is %d, and Grafana's is %d", d.SchemaVersion, current)
	}
	for _, change := range [][2]string{
		{`"editable"`, `"editible"`},
		{`"gridPos"`, `"gridPosition"`},
		{`"graphMode"`, `"graph"`},
		{`"showHeader"`, `"header"`},
		{`"refId": "A"`, `"refId": 1`},
		{`"instant": true`, `"instant": 1`},
		{`"drawStyle"`, `"drawingStyle"`},
		{`"legend": {`, `"legends": {`},
	} {
		if broken := strings.Replace(string(text), change[0], change[1], 1); broken == string(text) ||
			checkSchema([]byte(broken)) == nil {
			t.Errorf("%s instead of %s is not found", change[1], change[0])
		}
	}
}

// TestPanels: Grafana's present types of panels are used, each with a title, a query and an ID of its own.
func TestPanels(t *testing.T) {
	ids := map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("%q: id %d is missing or used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		switch p.Type {
		case "row":
			continue
		case "stat", "table", "timeseries":
		default:
			t.Errorf("%s: unknown type %s", p.Title, p.Type)
		}
		if len(p.Targets) != 1 || p.Targets[0].Expr == "" || (p.Type == "timeseries") != (p.Targets[0].Legend != "") {
			t.Errorf("%s: %+v", p.Title, p.Targets)
		}
	}
	if len(ids) < 20 {
		t.Errorf("%d panels, want more", len(ids))
	}
}

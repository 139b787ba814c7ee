// SPDX-License-Identifier: Apache-2.0

package bench

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed report.md.tmpl
var reportTemplate string

// reportFile is the file that Write creates.
const reportFile = "README.md"

// Markdown renders the whole report.
func (r Report) Markdown() (string, error) {
	functions := template.FuncMap{"thousands": thousands, "percent": percent}
	tmpl, err := template.New("report").Funcs(functions).Parse(reportTemplate)
	if err != nil {
		return "", fmt.Errorf("parse the report's template: %w", err)
	}
	var out strings.Builder
	if err := tmpl.Execute(&out, r); err != nil {
		return "", fmt.Errorf("render the report: %w", err)
	}
	return out.String(), nil
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// Write writes the report into a folder.
func (r Report) Write(folder string) error {
	text, err := r.Markdown()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a folder of the repository, for all to read
		return fmt.Errorf("make the report's folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, reportFile), []byte(text), 0o644); err != nil { //nolint:gosec // as above
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

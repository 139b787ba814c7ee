// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/certificate"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// outputFile is one file to write.
type outputFile struct {
	machineconfig.Object
	machineConfig bool // counted in the operator's limit
}

// reportedFile is one file in the JSON report.
type reportedFile struct {
	Path         string   `json:"path"`
	Bytes        int      `json:"bytes"`                  // of a MachineConfig as JSON, of another file as it is
	Percent      *float64 `json:"percent,omitempty"`      // of the operator's limit
	Architecture string   `json:"architecture,omitempty"` // GOARCH of the binary in it
}

// renderedFiles is the report of render.
type renderedFiles struct {
	report.Header

	Files        []reportedFile `json:"files"`
	TotalBytes   int            `json:"totalBytes"` // of the MachineConfigs
	TotalPercent float64        `json:"totalPercent"`
	LimitBytes   int            `json:"limitBytes"`
	Example      bool           `json:"example,omitempty"`
}

func percent(size int) float64 { return 100 * float64(size) / machineconfig.OperatorLimit }

// report lists the files below dir and their sizes.
func (f renderFlags) report(w io.Writer, outputs []outputFile, dir string) error {
	r := renderedFiles{
		Header: report.NewHeader("RenderedFiles"), LimitBytes: machineconfig.OperatorLimit,
		Example: f.image == machineconfig.ExampleImage,
	}
	for _, o := range outputs {
		file := reportedFile{
			Path: filepath.Join(dir, filepath.FromSlash(o.File)), Bytes: o.Size, Architecture: o.Architecture,
		}
		if o.machineConfig {
			share := percent(o.Size)
			file.Percent = &share
			r.TotalBytes += o.Size
		}
		r.Files = append(r.Files, file)
	}
	r.TotalPercent = percent(r.TotalBytes)
	if f.format != cli.Text {
		return cli.WriteDocument(w, f.format, r)
	}
	if err := r.text(w); err != nil {
		return err
	}
	if next := f.nextCommands(dir); len(next) > 0 {
		commands := strings.Join(next, "\n  ")
		text := "\nThe commands that apply these files:\n  " + commands + "\n"
		if f.certificate.on {
			text += "\nWhen the Certificate is Ready and the clients are prepared (docs/before-the-switch.md):\n  sh " +
				filepath.Join(dir, filepath.FromSlash(certificate.SwitchFile)) + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("cannot print the report: %w", err)
		}
	}
	return nil
}

// nextCommands returns the commands that apply the files in dir. A GitOps engine applies a
// layout.
func (f renderFlags) nextCommands(dir string) []string {
	if dir == "" || f.fcos || f.layout != "" || f.image == machineconfig.ExampleImage {
		return nil
	}
	commands := []string{
		"sh " + filepath.Join(dir, filepath.FromSlash(disruption.ScriptFile)) + " rollout", "oc http01 status",
	}
	if f.certificate.on {
		commands = append(commands,
			"oc apply --server-side --field-manager=http01-proxyd -f "+filepath.Join(dir, certificate.Folder))
	}
	return commands
}

func (r renderedFiles) text(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Files {
		remark := ""
		switch {
		case f.Percent != nil:
			remark = machineconfig.LimitShare(f.Bytes)
		case f.Architecture != "":
			remark = "for linux/" + f.Architecture
		}
		fmt.Fprintf(table, "%s\t%d bytes\t%s\n", f.Path, f.Bytes, remark)
	}
	if r.TotalBytes > 0 {
		fmt.Fprintf(table, "all MachineConfigs\t%d bytes\t%s of the machine-config-operator's limit of %d for a pool\n",
			r.TotalBytes, machineconfig.LimitShare(r.TotalBytes), r.LimitBytes)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	return nil
}

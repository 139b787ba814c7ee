// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// outputFile is one file to write.
type outputFile struct {
	machineconfig.Object
	machineConfig bool     // counted in the operator's limit
	uncovered     []string // files and units without an entry in the policy
}

// reportedFile is one file in the JSON report.
type reportedFile struct {
	Path    string   `json:"path"`
	Bytes   int      `json:"bytes"`             // of a MachineConfig as JSON, of another file as it is
	Percent *float64 `json:"percent,omitempty"` // of the operator's limit
	Reboots []string `json:"reboots,omitempty"` // files and units whose change reboots a host

	Architecture string `json:"architecture,omitempty"` // GOARCH of the binary in it
}

type conditionReport struct {
	Files        []reportedFile `json:"files"`
	TotalBytes   int            `json:"totalBytes"` // of the MachineConfigs
	TotalPercent float64        `json:"totalPercent"`
	LimitBytes   int            `json:"limitBytes"`
	Example      bool           `json:"example,omitempty"`
}

func percent(size int) float64 { return 100 * float64(size) / machineconfig.OperatorLimit }

// report lists the files below dir and their sizes.
func (f renderFlags) report(w io.Writer, outputs []outputFile, dir string) error {
	r := conditionReport{LimitBytes: machineconfig.OperatorLimit, Example: f.image == machineconfig.ExampleImage}
	for _, o := range outputs {
		file := reportedFile{Path: filepath.Join(dir, filepath.FromSlash(o.File)), Bytes: o.Size, Reboots: o.uncovered, Architecture: o.Architecture}
		if o.machineConfig {
			share := percent(o.Size)
			file.Percent = &share
			r.TotalBytes += o.Size
		}
		r.Files = append(r.Files, file)
	}
	r.TotalPercent = percent(r.TotalBytes)
	if f.format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.text(w)
}

func (r conditionReport) text(w io.Writer) error {
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
		fmt.Fprintf(table, "all MachineConfigs\t%d bytes\t%s of the machine-config-operator's limit of %d for a pool\n", r.TotalBytes, machineconfig.LimitShare(r.TotalBytes), r.LimitBytes)
	}
	for _, f := range r.Files {
		for _, name := range f.Reboots {
			fmt.Fprintf(table, "warning: a change of %s reboots every host, because the policy has no entry for it\n", name)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// VersionDocument is the version of a binary, as "version -o json" prints it.
type VersionDocument struct {
	report.Header

	Version   string `json:"version"`  // (devel) without a record of the version
	Commit    string `json:"commit"`   // unknown without a record
	Modified  bool   `json:"modified"` // built from a changed work tree
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func versionCommand() *cobra.Command {
	format := ""
	c := &cobra.Command{
		Use: "version", Short: "print the version",
		Long: "Print the version, the commit it was built from and the Go release.",
		RunE: func(c *cobra.Command, _ []string) error { return writeVersion(c, format) },
	}
	OutputFlag(c, &format, Text, JSON, YAML)
	return c
}

func writeVersion(c *cobra.Command, format string) error {
	if format != Text {
		return WriteDocument(c.OutOrStdout(), format, readVersion())
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), c.Root().Name(), Version())
	return err
}

// Version describes this build: the version, which contains the commit for a build between
// tags, and the Go release.
func Version() string {
	v := readVersion()
	return v.Version + " " + v.GoVersion
}

// readVersion reads the record of the Go toolchain.
func readVersion() VersionDocument {
	v := VersionDocument{
		Header: report.NewHeader("Version"), Version: "(devel)", Commit: "unknown",
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, known := debug.ReadBuildInfo()
	if !known {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

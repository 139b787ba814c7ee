// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

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
	b := report.ReadBuild()
	return b.Version + " " + b.GoVersion
}

// readVersion reads the record of the Go toolchain, which marks the version of a changed work
// tree with "+dirty".
func readVersion() VersionDocument {
	b := report.ReadBuild()
	return VersionDocument{
		Header: report.NewHeader("Version"), Version: b.Version, Commit: cmp.Or(b.Revision, "unknown"),
		Modified: strings.HasSuffix(b.Version, "+dirty"), GoVersion: b.GoVersion,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

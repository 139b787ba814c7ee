// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
)

const versionName = "version"

func versionCommand(program string) Command {
	return Command{
		Name:    versionName,
		Summary: "print the version",
		Help:    "Print the version, the commit it was built from and the Go release.",
		Setup: func(*flag.FlagSet) func(context.Context, Streams) error {
			return func(_ context.Context, s Streams) error {
				_, err := fmt.Fprintln(s.Out, program, Version())
				return err
			}
		},
	}
}

// Version describes this build from the record of the Go toolchain: the version, the
// commit unless the version contains it, and the Go release; "unknown" without a
// record.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

// describe returns the version, which contains the commit for a build between tags, the
// commit otherwise, and the Go release.
func describe(info *debug.BuildInfo) string {
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	revision := setting["vcs.revision"]
	revision = revision[:min(len(revision), 12)]
	if !strings.Contains(v, revision) {
		v += " commit " + revision
		if setting["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return v + " " + info.GoVersion
}

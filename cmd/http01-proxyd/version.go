// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
)

func versionCommand() command {
	return command{
		name:    "version",
		summary: "print the version",
		help:    "Print the version, the commit it was built from and the Go release.",
		setup: func(*flag.FlagSet) func(context.Context, streams) error {
			return func(_ context.Context, s streams) error {
				_, err := fmt.Fprintln(s.out, "http01-proxyd", version())
				return err
			}
		},
	}
}

// version describes this build as the Go toolchain has recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

// describe gives the version, which for a build between tags names the commit
// by itself, the commit where it does not, and the Go release.
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

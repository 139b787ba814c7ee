// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
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

// version describes the build as the Go toolchain has recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	if revision := setting["vcs.revision"]; revision != "" {
		v += " commit " + revision[:min(len(revision), 12)]
	}
	if setting["vcs.modified"] == "true" {
		v += " modified"
	}
	return v + " " + info.GoVersion
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"runtime/debug"
)

// Build says what the running service was built from.
type Build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"` // of the sources; empty when it is not known
	GoVersion string `json:"goVersion"`
}

// readBuild is what the Go toolchain has recorded of this program.
func readBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: cmp.Or(info.Main.Version, "(devel)"), GoVersion: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

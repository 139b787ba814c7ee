// SPDX-License-Identifier: Apache-2.0

package tracker

import (
	"cmp"
	"runtime/debug"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// readBuild returns what the Go toolchain has recorded in this program.
func readBuild() report.Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return report.Build{Version: "unknown"}
	}
	b := report.Build{Version: cmp.Or(info.Main.Version, "(devel)"), GoVersion: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

// SPDX-License-Identifier: Apache-2.0

package command

import (
	"runtime/debug"
	"testing"
)

func TestVersionHasCommitOnce(t *testing.T) {
	t.Parallel()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]*debug.BuildInfo{
		"(devel) go1.26.0":                                    built(""),
		"v1.2.3 commit 0123456789ab go1.26.0":                 built("v1.2.3", vcs[:1]...),
		"v1.2.3 commit 0123456789ab with changes go1.26.0":    built("v1.2.3", vcs...),
		"v1.2.4-0.20260102030405-0123456789ab+dirty go1.26.0": built("v1.2.4-0.20260102030405-0123456789ab+dirty", vcs...),
	} {
		if got := describe(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

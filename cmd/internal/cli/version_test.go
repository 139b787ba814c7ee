// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersionHasCommitOnce(t *testing.T) {
	t.Parallel()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]*debug.BuildInfo{
		"(devel) commit unknown":                     built(""),
		"v1.2.3 commit 0123456789ab":                 built("v1.2.3", vcs[:1]...),
		"v1.2.3 commit 0123456789ab with changes":    built("v1.2.3", vcs...),
		"v1.2.4-0.20260102030405-0123456789ab+dirty": built("v1.2.4-0.20260102030405-0123456789ab+dirty", vcs...),
	} {
		if got := versionFrom(info).describe(); got != want+" "+runtime.Version() {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

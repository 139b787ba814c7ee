// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// packitCommand is a command of an action in .packit.yaml.
var packitCommand = regexp.MustCompile(`(?m)^    - bash -c '(.*)'$`)

// TestPackit runs the actions of Packit for a pre-release: they create an archive that builds without
// network and records the version, and name it in the specification.
func TestPackit(t *testing.T) {
	t.Parallel()
	dir := clone(t, snapshot(t), "clone")
	const prerelease = version + "-rc.1"
	succeed(t, dir, "git", "tag", prerelease)
	actions := packitCommand.FindAllStringSubmatch(files(t, dir)[".packit.yaml"], -1)
	if len(actions) != 2 {
		t.Fatalf(".packit.yaml has the actions %q, want two", actions)
	}
	env := []string{"PACKIT_PROJECT_VERSION=" + strings.TrimPrefix(prerelease, "v")}
	var out strings.Builder
	for _, action := range actions {
		got, err := run(t, dir, env, "bash", "-c", action[1])
		if err != nil {
			t.Fatalf("%s: %v\n%s", action[1], err, got)
		}
		out.WriteString(got)
	}
	name := "http01-proxyd-" + strings.TrimPrefix(version, "v") + "~rc.1"
	if want := "packaging/" + name + ".tar.gz\n"; !strings.HasSuffix(out.String(), want) {
		t.Fatalf("the actions print %q, want %s", out.String(), want)
	}
	spec := files(t, filepath.Join(dir, "packaging"))["http01-proxyd.spec"]
	if want := "global http01_version " + strings.TrimPrefix(name, "http01-proxyd-") + "}"; !strings.Contains(spec, want) {
		t.Errorf("the specification lacks %q", want)
	}
	unpacked := filepath.Join(t.TempDir(), name)
	succeed(t, dir, "tar", "--extract", "--file=packaging/"+name+".tar.gz", "--directory="+filepath.Dir(unpacked))
	if got := succeed(t, unpacked, "git", "describe", "--exact-match", "--tags", "--dirty"); got != prerelease+"\n" {
		t.Errorf("the archive is of %s, want %s", got, prerelease)
	}
	succeed(t, unpacked, "env", "GOPROXY=off", "GOFLAGS=", "GOMODCACHE="+t.TempDir(), "go", "list", "-deps", "./cmd/...")
}

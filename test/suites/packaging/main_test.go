// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// Variables from the outside for the inside of the cell.
const (
	treeVariable     = "HTTP01_PACKAGING_TREE"
	binariesVariable = "HTTP01_PACKAGING_BINARIES"
)

// Releases with packages, by make's version and rpm's. The second is an upgrade of the
// first.
const (
	first       = "v1.2.3-rc.1"
	second      = "v1.2.3"
	firstInRPM  = "1.2.3~rc.1-1"
	secondInRPM = "1.2.3-1"
)

func releases() []string { return []string{first, second} }

// shared is the environment that the tests use in turn.
var shared *testbed

func TestMain(m *testing.M) {
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(m.Run))
}

// prepare builds what needs the machine's own network: the tree of the hosts and the
// binaries of two releases.
func prepare(ctx context.Context) ([]string, error) {
	tree, err := host.Tree(ctx, filepath.Join(host.Repository(), ".cache"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "http01-packaging-")
	if err != nil {
		return nil, fmt.Errorf("create the directory for binaries: %w", err)
	}
	if err := buildReleases(ctx, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return []string{treeVariable + "=" + tree, binariesVariable + "=" + dir}, nil
}

// tagged commits the working tree in a copy, tags it with one release after the other, and
// builds a binary of each release.
const tagged = `git ls-files -z --cached --others --exclude-standard |
	tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory="$1"
cd "$1"
git init --quiet
git add --force .
git commit --quiet --no-gpg-sign --message=all
for release in $2; do
	git tag --no-sign "$release"
	go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$3/$release" ./cmd/http01-proxyd
done
go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$3/` + adminTool + `" ./cmd/oc-http01`

// adminTool is another program of the same release.
const adminTool = "oc-http01"

// buildReleases builds a binary of each release into dir under the release's name.
func buildReleases(ctx context.Context, dir string) error {
	tree, err := os.MkdirTemp("", "http01-packaging-tree-")
	if err != nil {
		return fmt.Errorf("create the directory for a tree: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", tagged, "sh", tree, strings.Join(releases(), " "), dir)
	cmd.Dir = host.Repository()
	cmd.Env = append(
		os.Environ(), "CGO_ENABLED=0", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the releases: %w\n%s", err, out), os.RemoveAll(tree))
	}
	return os.RemoveAll(tree)
}

func up(ctx context.Context, c *host.Cell) (down func(context.Context) error, err error) {
	binaries := os.Getenv(binariesVariable)
	if shared, err = newTestbed(ctx, c, os.Getenv(treeVariable), binaries); err != nil {
		return nil, errors.Join(err, os.RemoveAll(binaries))
	}
	return func(ctx context.Context) error {
		return errors.Join(shared.close(ctx), os.RemoveAll(binaries))
	}, nil
}

// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/test/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/host"
	"github.com/http01-proxyd/http01-proxyd/test/oc"
)

// The inside of the cell gets these from the outside.
const binariesVariable = "HTTP01_DELIVERY_BINARIES"

// shared is the one site that the tests use in turn.
var shared *site

func TestMain(m *testing.M) {
	oc.Client() // when a shell of ours has called this program as one of its commands
	if os.Geteuid() != 0 {
		os.Exit(m.Run()) // the tests skip themselves, saying why
	}
	os.Exit(host.Enclose(prepare, func(c *host.Cell) int { return inside(m, c) }))
}

// prepare builds what wants the machine's own network: hosts' tree, programs,
// and the modules of the rest.
func prepare(ctx context.Context) ([]string, error) {
	dir, err := os.MkdirTemp("", "http01-delivery-")
	if err != nil {
		return nil, fmt.Errorf("make the directory for binaries: %w", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	var env []string
	group.Go(func() (err error) {
		env, err = cluster.Prepare(groupCtx, filepath.Join(repository(), ".cache"))
		return err
	})
	group.Go(func() error { return build(groupCtx, dir) })
	group.Go(func() error { return buildIgnition(groupCtx) })
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return append(env, binariesVariable+"="+dir), nil
}

// build makes the binaries of three releases, which differ by what the linker
// calls them, and the tool that renders.
func build(ctx context.Context, dir string) error {
	for _, release := range releases() {
		if err := goBuild(ctx, filepath.Join(dir, release), "-ldflags=-s -w -buildid="+release, "./cmd/http01-proxyd"); err != nil {
			return err
		}
	}
	return goBuild(ctx, filepath.Join(dir, renderer), "./cmd/"+renderer)
}

func goBuild(ctx context.Context, output string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", output}, args...)...)
	cmd.Dir = repository()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", args, err, out)
	}
	return nil
}

func inside(m *testing.M, cell *host.Cell) int {
	defer func() { _ = os.RemoveAll(os.Getenv(binariesVariable)) }()
	// The tests' own contexts end with them; the site outlives them.
	ctx := context.Background()
	s, err := newSite(ctx, cell)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bring the site up:", err)
		return 1
	}
	shared = s
	code := m.Run()
	if err := s.close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "take the site away:", err)
		return max(code, 1)
	}
	return code
}

// repository is its root: go test runs in the package's folder.
func repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

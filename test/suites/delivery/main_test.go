// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// Variables from the outside for the inside of the cell.
const binariesVariable = "HTTP01_DELIVERY_BINARIES"

// shared is the cluster that the tests use in turn.
var shared *testbed

func TestMain(m *testing.M) {
	oc.Client() // when a shell of a test called this program as a command
	flood.Main()
	tests := func() int {
		code := m.Run()
		if os.Geteuid() == 0 {
			code = max(code, checkAllBlocksRun(context.Background(), shared.ran))
		}
		return code
	}
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(tests))
}

// prepare builds what needs the machine's own network: the tree of the hosts, programs, and
// their modules.
func prepare(ctx context.Context) ([]string, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	var env []string
	var dir string
	group.Go(func() (err error) {
		env, err = cluster.Prepare(groupCtx, filepath.Join(host.Repository(), ".cache"))
		return err
	})
	group.Go(func() (err error) {
		dir, err = host.GroupDirectory(groupCtx, "binaries", func(dir string) error { return build(groupCtx, dir) })
		return err
	})
	group.Go(func() error { return oracle.Build(groupCtx) })
	group.Go(func() error {
		_, err := containersTree(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, host.LeaveGroup(dir))
	}
	return append(env, binariesVariable+"="+dir), nil
}

// build builds Ignition, the binaries of three releases, which differ in their build ID, the last release, and
// the renderer. One process of the group runs it.
func build(ctx context.Context, dir string) error {
	if err := buildIgnition(ctx); err != nil {
		return err
	}
	for _, release := range releases() {
		if err := goBuild(ctx, filepath.Join(dir, release), "-ldflags=-s -w -buildid="+release,
			"./cmd/http01-proxyd"); err != nil {
			return err
		}
	}
	if err := buildLastRelease(ctx, filepath.Join(dir, lastRelease)); err != nil {
		return err
	}
	return goBuild(ctx, filepath.Join(dir, renderer), "./cmd/"+renderer)
}

func goBuild(ctx context.Context, output string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", output}, args...)...)
	cmd.Dir = host.Repository()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOGC=400")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", args, err, out)
	}
	return nil
}

func up(ctx context.Context, cell *host.Cell) (down func(context.Context) error, err error) {
	binaries := os.Getenv(binariesVariable)
	if shared, err = newTestbed(ctx, cell); err != nil {
		return nil, errors.Join(err, host.LeaveGroup(binaries))
	}
	return func(ctx context.Context) error {
		return errors.Join(shared.close(ctx), host.LeaveGroup(binaries))
	}, nil
}

// checkAllBlocksRun returns 1 when all tests ran, in all processes of the group, and a
// command of the documents has not.
func checkAllBlocksRun(ctx context.Context, ran map[string]bool) int {
	if os.Getenv(host.GroupVariable) == "" {
		for _, chosen := range []string{"test.run", "test.skip", "test.list"} {
			if flag.Lookup(chosen).Value.String() != "" {
				return 0
			}
		}
	}
	all, last, err := host.Gather(ctx, "ran", slices.Sorted(maps.Keys(ran)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if !last {
		return 0
	}
	together := map[string]bool{}
	for _, title := range all {
		together[title] = true
	}
	left, err := unusedBlocks(together)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, title := range left {
		fmt.Fprintln(os.Stderr, "no test ran the commands of", title)
	}
	return min(len(left), 1)
}

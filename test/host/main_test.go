// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/host"
	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// The inside of the cell gets these from the outside.
const (
	binaryVariable = "HTTP01_PROXYD" // as `make` sets it; built when it is not set
	treeVariable   = "HTTP01_HOST_TEST_TREE"
)

// shared is the one site that the tests use in turn.
var shared *site

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run()) // the tests skip themselves, saying why
	}
	if os.Getenv(holdMarker) != "" {
		ready := func(context.Context) ([]string, error) { return nil, nil }
		os.Exit(host.Enclose(ready, hold))
	}
	os.Exit(host.Enclose(prepare, func(c *host.Cell) int { return inside(m, c) }))
}

func prepare(ctx context.Context) ([]string, error) {
	tree, err := host.Tree(ctx, filepath.Join(repository(), ".cache"))
	if err != nil {
		return nil, err
	}
	env := []string{treeVariable + "=" + tree}
	if os.Getenv(binaryVariable) == "" {
		binary, err := lab.BuildService(ctx)
		if err != nil {
			return nil, err
		}
		env = append(env, binaryVariable+"="+binary)
	}
	return env, nil
}

func inside(m *testing.M, c *host.Cell) int {
	// The tests' own contexts end with them; the site outlives them.
	ctx := context.Background()
	s, err := newSite(ctx, c, os.Getenv(treeVariable), os.Getenv(binaryVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bring the hosts up:", err)
		return 1
	}
	shared = s
	code := m.Run()
	if err := s.close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "take the hosts away:", err)
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

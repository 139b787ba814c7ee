// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Suite is what the tests of a package share: things in a cell, of which there
// is one of a kind since hosts take seconds to boot.
type Suite struct {
	// Prepare is Enclose's.
	Prepare func(ctx context.Context) ([]string, error)
	// Up brings them up in the cell. The tests' own contexts end with them;
	// this one does not.
	Up func(ctx context.Context, c *Cell) (down func(context.Context) error, err error)
}

// Run is for TestMain: it runs the tests (testing.M.Run) between Up and what Up
// returns, in a cell, and returns the exit code. Without root it runs them as
// they are: they skip themselves, saying why.
func (s Suite) Run(tests func() int) int {
	if os.Geteuid() != 0 {
		return tests()
	}
	return Enclose(s.Prepare, func(c *Cell) int { return s.inside(c, tests) })
}

func (s Suite) inside(c *Cell, tests func() int) int {
	ctx := context.Background()
	down, err := s.Up(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bring up what the tests share:", err)
		return 1
	}
	code := tests()
	if err := down(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "take away what the tests shared:", err)
		return max(code, 1)
	}
	return code
}

// Repository is the root of the repository, for a test of a package of the test
// module: go test runs it in the package's folder.
func Repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return dir
}

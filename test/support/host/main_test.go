// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Variables from the outside for the inside of the cell.
const (
	binaryVariable = "HTTP01_PROXYD" // as `make` sets it; built when it is not set
	treeVariable   = "HTTP01_HOST_TEST_TREE"
)

// shared is the environment that the tests use in turn.
var shared *testbed

func TestMain(m *testing.M) {
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(m.Run))
}

func prepare(ctx context.Context) ([]string, error) {
	tree, err := host.Tree(ctx, filepath.Join(host.Repository(), ".cache"))
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

func up(ctx context.Context, c *host.Cell) (down func(context.Context) error, err error) {
	shared, err = newTestbed(ctx, c, os.Getenv(treeVariable), os.Getenv(binaryVariable))
	if err != nil {
		return nil, err
	}
	return shared.close, nil
}

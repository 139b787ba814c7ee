// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	// binaryVariable names the service's binary, as `make` sets it. It is built when the
	// variable is not set.
	binaryVariable = "HTTP01_PROXYD"
)

// shared is the cluster that the tests use in turn.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(m.Run))
}

func prepare(ctx context.Context) ([]string, error) {
	env, err := cluster.Prepare(ctx, filepath.Join(host.Repository(), ".cache"))
	if err != nil || os.Getenv(binaryVariable) != "" {
		return env, err
	}
	binary, err := lab.BuildService(ctx)
	return append(env, binaryVariable+"="+binary), err
}

func up(ctx context.Context, cell *host.Cell) (down func(context.Context) error, err error) {
	begin := time.Now()
	if shared, err = cluster.New(ctx, cell); err != nil {
		return nil, err
	}
	fmt.Printf("three control-plane hosts, the lab and the registry came up in %v\n",
		time.Since(begin).Round(10*time.Millisecond))
	return shared.Close, nil
}

// useCluster returns the cluster with every control-plane host running and the VIPs in
// place. It logs a diagnosis when the test fails.
func useCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Diagnosis(context.Background()))
		}
	})
	must(t, shared.AwaitVIPs(t.Context()))
	return shared
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

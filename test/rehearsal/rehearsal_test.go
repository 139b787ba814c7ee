// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"os"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

var (
	run    context.Context // of the whole run; a signal ends it
	binary string          // the service under test
)

func TestMain(m *testing.M) {
	labtest.Main(m, func(ctx context.Context, path string) { run, binary = ctx, path })
}

// rehearse runs all steps in a layout.
func rehearse(t *testing.T, layout lab.Layout) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	programs, err := cluster.Build(run)
	if err != nil {
		t.Fatal(err)
	}
	runSteps(t, &rehearsal.Rehearsal{Binary: binary, Layout: layout, Programs: programs})
}

// runSteps runs all steps and removes the lab. The logs of a failed step come before its
// error, because a long output is often cut to its last lines.
func runSteps(t *testing.T, r interface {
	Steps() []steps.Step
	Logs() string
	Close() error
},
) {
	t.Helper()
	interrupted := context.AfterFunc(run, func() { _ = r.Close(); os.Exit(130) })
	t.Cleanup(func() {
		interrupted()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, step := range r.Steps() {
		text, err := step.Run(run)
		if err != nil {
			t.Log(r.Logs())
			t.Fatalf("%s: %v", step.Title, err)
		}
		t.Logf("%s: %s", step.Title, text)
	}
}

func TestDualStack(t *testing.T) { rehearse(t, lab.Layout{}) }

func TestIPv4Only(t *testing.T) { rehearse(t, lab.Layout{Families: lab.IPv4Only}) }

func TestIPv6Only(t *testing.T) { rehearse(t, lab.Layout{Families: lab.IPv6Only}) }

// TestCompact has the router on the node that holds the API VIPs.
func TestCompact(t *testing.T) { rehearse(t, lab.Layout{Compact: true}) }

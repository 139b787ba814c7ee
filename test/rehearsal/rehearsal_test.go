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

// base returns what each rehearsal needs.
func base(t *testing.T, layout lab.Layout) rehearsal.Rehearsal {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	return rehearsal.Rehearsal{Binary: binary, Layout: layout, Programs: must1(cluster.Build(run))(t)}
}

// rehearse runs all steps in a layout.
func rehearse(t *testing.T, layout lab.Layout) {
	t.Helper()
	r := base(t, layout)
	runSteps(t, &r)
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

func TestIPv6Only(t *testing.T) { rehearse(t, lab.Layout{Families: lab.IPv6Only}) }

// TestCompact has the router on the node that holds the API VIPs.
func TestCompact(t *testing.T) { rehearse(t, lab.Layout{Compact: true}) }

// TestScale has more Challenges than cert-manager processes at a time (60), while the VIPs move,
// the service restarts and its proxy process is killed. `make rehearsal REHEARSAL=--scale=300`
// requests more Certificates.
func TestScale(t *testing.T) {
	runSteps(t, &rehearsal.Scale{Rehearsal: base(t, lab.Layout{}), Certificates: 64})
}

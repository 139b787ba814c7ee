// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// shared is the one lab that all tests use in turn, and the program.
var shared struct {
	lab    *lab.Lab
	binary string
}

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if shared.binary, err = lab.Binary(ctx, os.Getenv("HTTP01_PROXYD")); err != nil {
		return 1, err
	}
	if shared.lab, err = lab.New(ctx); err != nil {
		return 1, err
	}
	// A signal ends the tests' commands, and the lab goes with this process.
	closed := context.AfterFunc(ctx, func() { _ = shared.lab.Close(); os.Exit(130) })
	code = m.Run()
	closed()
	return code, shared.lab.Close()
}

// cluster is what a test begins with: all that check looks at is well. The
// service runs on every master, and master 0 holds the API VIPs.
type cluster struct {
	*lab.Lab
	t        *testing.T
	Services []*lab.Service
}

// healthy waits for a quiet lab and starts the services, with the configuration
// that config gives for a node; nil means the lab's default.
func healthy(t *testing.T, config func(*lab.Node) string) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	c := &cluster{Lab: shared.lab, t: t}
	must(t, c.Settled(t.Context()))
	for i, m := range c.Masters {
		o := lab.ServiceOptions{Binary: shared.binary}
		if config != nil {
			o.Config = config(m.Node)
		}
		s, err := m.StartService(t.Context(), o)
		must(t, err)
		// The test's context has ended by then.
		t.Cleanup(func() { c.stop(s) })
		c.Services = append(c.Services, s)
		want := "Standby"
		if i == 0 {
			want = "Serving"
		}
		_, err = s.AwaitReason(t.Context(), want)
		must(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

func (c *cluster) stop(s *lab.Service) {
	select {
	case <-s.Exited():
	default:
		must(c.t, s.Stop(context.Background()))
	}
}

// holder is the master that holds the API VIPs.
func (c *cluster) holder() *lab.Node { return c.Masters[0].Node }

// check runs the check command on a node.
func (c *cluster) check(n *lab.Node, flags ...string) (lab.CheckReport, int) {
	c.t.Helper()
	r, code, err := n.Check(c.t.Context(), shared.binary, flags...)
	must(c.t, err)
	return r, code
}

// exactly wants check to find these and nothing else on a node, and to exit
// with 1 when one of them is a problem.
func (c *cluster) exactly(n *lab.Node, want []string, flags ...string) lab.CheckReport {
	c.t.Helper()
	r, code := c.check(n, flags...)
	got := r.IDs()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("findings on %s (-want +got):\n%s\n%+v", n, diff, r)
	}
	problems := 0
	if r.Outcome == "problem" {
		problems = 1
	}
	if code != problems {
		c.t.Errorf("exit code %d with the outcome %q", code, r.Outcome)
	}
	return r
}

// says wants a finding's text.
func (c *cluster) says(r lab.CheckReport, id, want string) {
	c.t.Helper()
	for _, result := range r.Checks {
		for _, f := range result.Findings {
			if f.ID == id {
				if diff := cmp.Diff(want, f.Says); diff != "" {
					c.t.Errorf("%s says (-want +got):\n%s", id, diff)
				}
				return
			}
		}
	}
	c.t.Errorf("there is no finding %s", id)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

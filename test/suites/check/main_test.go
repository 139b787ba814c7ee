// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared is the one lab that all tests use in turn, and the program.
var shared struct {
	lab    *lab.Lab
	binary string
}

func TestMain(m *testing.M) {
	if os.Getenv(withoutNetfilter) != "" {
		fmt.Fprintln(os.Stderr, runWithoutNetfilter(os.Args[1:]))
		os.Exit(2)
	}
	labtest.Shared(m, func(l *lab.Lab, binary string) error {
		shared.lab, shared.binary = l, binary
		return nil
	}, lab.WithEgress())
}

// cluster is what a test begins with: all that check looks at is well. The
// service runs on every master, and master 0 holds the API VIPs.
type cluster struct {
	*lab.Lab
	t        *testing.T
	Services []*lab.Service
	env      clusterServices
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
	c.startClusterServices()
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
		c.awaitReason(s, want)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

func (c *cluster) stop(s *lab.Service) { must(c.t, s.End(context.Background())) }

// holder is the master that holds the API VIPs.
func (c *cluster) holder() *lab.Node { return c.Masters[0].Node }

// check runs the check command on a node.
func (c *cluster) check(n *lab.Node, flags ...string) (lab.CheckReport, int) {
	c.t.Helper()
	r, code, err := n.Check(c.t.Context(), shared.binary, flags...)
	must(c.t, err)
	return r, code
}

// expectFindings wants check to find these and nothing else on a node, and to exit
// with 1 when one of them is a problem.
func (c *cluster) expectFindings(n *lab.Node, want []string, flags ...string) lab.CheckReport {
	c.t.Helper()
	r, code := c.check(n, flags...)
	c.expectReport(r, code, want)
	return r
}

// expectReport fails the test unless a report has these findings and nothing else, and
// the exit code is 1 when one of them is a problem.
func (c *cluster) expectReport(r lab.CheckReport, code int, want []string) {
	c.t.Helper()
	got := r.IDs()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("findings (-want +got):\n%s\n%+v", diff, r)
	}
	problems := 0
	if r.Outcome == "problem" {
		problems = 1
	}
	if code != problems {
		c.t.Errorf("exit code %d with the outcome %q", code, r.Outcome)
	}
}

// expectDuration wants check to have ended when it promises to, by its own clock.
func (c *cluster) expectDuration(r lab.CheckReport) {
	c.t.Helper()
	if r.Took <= 0 || r.Took > 15000 {
		c.t.Errorf("it took %v ms", r.Took)
	}
	c.t.Logf("%v ms, %v", r.Took, r.IDs())
}

// texts wants a finding's cause and mend to have these parts.
func (c *cluster) expectText(r lab.CheckReport, id string, parts ...string) {
	c.t.Helper()
	texts := r.Texts(id)
	if len(texts) == 0 {
		c.t.Errorf("there is no finding %s", id)
		return
	}
	for _, part := range parts {
		if !strings.Contains(texts[0], part) {
			c.t.Errorf("%s says %q, want it to have %q", id, texts[0], part)
		}
	}
}

// restartService starts the holder's service anew, in another way, and waits for a reason.
func (c *cluster) restartService(o lab.ServiceOptions, reason string) {
	c.t.Helper()
	c.stop(c.Services[0])
	o.Binary = shared.binary
	s, err := c.holder().StartService(c.t.Context(), o)
	must(c.t, err)
	c.t.Cleanup(func() { c.stop(s) })
	c.awaitReason(s, reason)
}

// configure replaces the configuration of the holder's service and waits for a
// reason.
func (c *cluster) configure(text, reason string) {
	c.t.Helper()
	must(c.t, c.holder().WriteConfig(text))
	c.awaitReason(c.Services[0], reason)
}

// awaitReason waits until a service's condition has a reason.
func (c *cluster) awaitReason(s *lab.Service, reason string) lab.Status {
	c.t.Helper()
	seen, err := s.AwaitReason(c.t.Context(), reason)
	must(c.t, err)
	return seen
}

// writeTestFile writes a file that goes with the test.
func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	t.Cleanup(func() { must(t, os.Remove(path)) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

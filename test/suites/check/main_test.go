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

// shared holds the lab that all tests use in turn, and the program.
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

// cluster is the healthy state with which a test begins. The service runs on every
// control-plane node, and the first one holds the API VIPs.
type cluster struct {
	*lab.Lab
	t        *testing.T
	Services []*lab.Service
	env      clusterServices
}

// healthy waits until the VIPs are in place and starts the services. config returns the
// configuration of a node; nil selects the lab's default.
func healthy(t *testing.T, config func(*lab.Node) string) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	c := &cluster{Lab: shared.lab, t: t}
	must(t, c.AwaitVIPs(t.Context()))
	c.startClusterServices()
	for i, m := range c.ControlPlane {
		o := lab.ServiceOptions{Binary: shared.binary}
		if config != nil {
			o.Config = config(m.Node)
		}
		s, err := m.StartService(t.Context(), o)
		must(t, err)
		// The context of the test has ended at that time.
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

// holder returns the control-plane node that holds the API VIPs.
func (c *cluster) holder() *lab.Node { return c.ControlPlane[0].Node }

// check runs the check command on a node.
func (c *cluster) check(n *lab.Node, flags ...string) (lab.CheckReport, int) {
	c.t.Helper()
	text, code, err := n.CheckText(c.t.Context(), shared.binary, append(flags, "-o", "json")...)
	must(c.t, err)
	validateReport(c.t, text)
	r, err := lab.ParseCheck(text)
	must(c.t, err)
	return r, code
}

// expectFindings runs check on a node and expects exactly these findings. The exit code
// must be 3 when one of them is a problem.
func (c *cluster) expectFindings(n *lab.Node, want []string, flags ...string) lab.CheckReport {
	c.t.Helper()
	r, code := c.check(n, flags...)
	c.expectReport(r, code, want)
	if c.t.Failed() {
		c.t.Logf("flags of check: %q", slices.Concat(n.CheckFlags(), flags))
	}
	return r
}

// expectReport expects a report with exactly these findings. The exit code must be 3 when
// one of them is a problem, and otherwise 4 when necessary checks are incomplete.
func (c *cluster) expectReport(r lab.CheckReport, code int, want []string) {
	c.t.Helper()
	got := r.IDs()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("findings (-want +got):\n%s\n%+v", diff, r)
	}
	wantCode := 0
	switch {
	case r.Outcome == "problem":
		wantCode = 3
	case len(r.Incomplete) > 0:
		wantCode = 4
	}
	if code != wantCode {
		c.t.Errorf("exit code %d with the outcome %q, incomplete: %q", code, r.Outcome, r.Incomplete)
	}
}

// expectDuration expects that check ended within its time limit by its own measurement.
func (c *cluster) expectDuration(r lab.CheckReport) {
	c.t.Helper()
	if r.Duration <= 0 || r.Duration > 15000 {
		c.t.Errorf("duration %v ms", r.Duration)
	}
	c.t.Logf("%v ms, %v", r.Duration, r.IDs())
}

// expectText expects the message and the remediation of a finding to contain these parts.
func (c *cluster) expectText(r lab.CheckReport, id string, parts ...string) {
	c.t.Helper()
	texts := r.Texts(id)
	if len(texts) == 0 {
		c.t.Errorf("no finding %s", id)
		return
	}
	for _, part := range parts {
		if !strings.Contains(texts[0], part) {
			c.t.Errorf("%s: text %q, want %q", id, texts[0], part)
		}
	}
}

// restartService restarts the holder's service with other options and waits for a reason.
func (c *cluster) restartService(o lab.ServiceOptions, reason string) {
	c.t.Helper()
	c.stop(c.Services[0])
	o.Binary = shared.binary
	s, err := c.holder().StartService(c.t.Context(), o)
	must(c.t, err)
	c.t.Cleanup(func() { c.stop(s) })
	c.Services[0] = s
	c.awaitReason(s, reason)
}

// configure replaces the configuration of the holder's service and waits for a reason.
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

// writeTestFile writes a file and removes it when the test ends.
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

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

// shared has the lab that the tests use in turn, and the service.
var shared struct {
	lab    *Lab
	binary string
}

func TestMain(m *testing.M) {
	flood.Main()
	slowsync.Main()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run brings up the lab and runs the tests. A signal ends the tests' commands and removes the
// lab. `go test` waits for this process.
func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return m.Run(), nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	// By default, programs with the race detector sleep one second before they exit, and
	// the status command is run often.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		return 1, err
	}
	if shared.binary = os.Getenv("HTTP01_PROXYD"); shared.binary == "" {
		if shared.binary, err = BuildService(ctx, "-race"); err != nil {
			return 1, err
		}
	}
	if shared.lab, err = New(ctx); err != nil {
		return 1, err
	}
	closed := context.AfterFunc(ctx, func() { _ = shared.lab.Close(); os.Exit(130) })
	code = m.Run()
	closed()
	return code, shared.lab.Close()
}

// cluster returns the shared lab with every VIP in place and no running service. The
// rulesets of all nodes must be unchanged at the end of the test.
func cluster(t *testing.T) (*Lab, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	l := shared.lab
	must(t, l.AwaitVIPs(t.Context()))
	before := rulesets(t, l)
	t.Cleanup(func() {
		if diff := cmp.Diff(before, rulesets(t, l)); diff != "" {
			t.Errorf("rulesets (-before +after the test):\n%s", diff)
		}
		if t.Failed() {
			t.Log(l.Logs())
		}
	})
	return l, shared.binary
}

func rulesets(t *testing.T, l *Lab) []string {
	t.Helper()
	var all []string
	for _, n := range l.nodes {
		// Cleanups run after the test's context ended.
		text, err := n.Ruleset(context.Background())
		must(t, err)
		all = append(all, n.Name+"\n"+text)
	}
	return all
}

// start runs the service on a node until the test ends. It must then exit with status 0 and
// leave no table.
func start(t *testing.T, n *Node, o ServiceOptions) *Service {
	t.Helper()
	if o.Binary == "" {
		o.Binary = shared.binary
	}
	s, err := n.StartService(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { stop(t, s) })
	return s
}

// stop stops a service unless it exits.
func stop(t *testing.T, s *Service) {
	t.Helper()
	ctx := context.Background()
	select {
	case <-s.Exited():
		return
	default:
	}
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop the service on %s: %v", s.node.Name, err)
	}
	// A data race in a child process does not affect the exit status of the service.
	if text, err := os.ReadFile(s.Log); err != nil || strings.Contains(string(text), "DATA RACE") {
		t.Errorf("a data race in the service on %s, or no log: %v\n%s", s.node.Name, err, text)
	}
	if left, err := s.node.HasServiceTable(ctx); left || err != nil {
		t.Errorf("table left on %s: %t, %v", s.node.Name, left, err)
	}
}

// startAll runs the service on every control-plane node and waits until the holder serves
// and the others are on standby.
func startAll(t *testing.T, l *Lab) []*Service {
	t.Helper()
	var services []*Service
	for _, m := range l.ControlPlane {
		services = append(services, start(t, m.Node, ServiceOptions{}))
	}
	awaitHolder(t, l, services, 0)
	return services
}

// awaitHolder waits until one control-plane node serves and the others are on standby.
func awaitHolder(t *testing.T, l *Lab, services []*Service, holder int) {
	t.Helper()
	for i, s := range services {
		want, state := "Standby", "Standby"
		if i == holder {
			want, state = "Serving", "Held"
		}
		_, err := s.Await(t.Context(), want, func(seen Status) error {
			if seen.Condition().Reason != want {
				return fmt.Errorf("reason is %s: %s", seen.Condition().Reason, seen.Condition().Message)
			}
			for _, vip := range l.API.Both() {
				if got := seen.VIPState(vip.String()); got != state {
					return fmt.Errorf("VIP %s is %q", vip, got)
				}
			}
			return nil
		})
		must(t, err)
	}
}

// awaitReason waits until a service's condition has a reason.
func awaitReason(t *testing.T, s *Service, reason string) Status {
	t.Helper()
	seen, err := s.AwaitReason(t.Context(), reason)
	must(t, err)
	return seen
}

// status returns a service's current report.
func status(t *testing.T, s *Service) Status {
	t.Helper()
	seen, err := s.Status(t.Context())
	must(t, err)
	return seen
}

// publishName publishes a name of the test with the given addresses.
func publishName(t *testing.T, l *Lab, label string, addresses Pair) string {
	t.Helper()
	name := label + "." + l.Domain
	must(t, l.Internet.SetName(t.Context(), name, addresses))
	return name
}

// orderCertificate orders a certificate for a name after a self check from a node; nil
// skips the self check.
func orderCertificate(t *testing.T, l *Lab, name string, from *Node) {
	t.Helper()
	_, err := l.Certificate(t.Context(), Order{Name: name, SelfCheckFrom: from})
	must(t, err)
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRefused waits until an address refuses connections.
func awaitRefused(t *testing.T, from *Node, address string) {
	t.Helper()
	must(t, Eventually(t.Context(), address+" refused from "+from.Name, func(ctx context.Context) error {
		conn, err := from.Dial(ctx, "tcp", address)
		switch {
		case err == nil:
			_ = conn.Close()
			return errors.New("connected")
		case errors.Is(err, unix.ECONNREFUSED):
			return nil
		default:
			return err
		}
	}))
}

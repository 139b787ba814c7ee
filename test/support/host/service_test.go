// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	apiName   = "api.lab.test"
	rejection = "Only /.well-known/acme-challenge/* is allowed"
	maxBytes  = 1 << 20
)

// service is the unit on the control-plane host for one test.
type service struct {
	*testbed
	t      *testing.T
	before host.Cursor // the end of the journal when the test began
}

// newService returns a control-plane host on which the unit has never been started, with or
// without keepalived. It cleans up after the test.
func newService(t *testing.T, keepalived bool) *service {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	s := &service{testbed: shared, t: t}
	s.reset(t.Context())
	s.keepalived(keepalived)
	var err error
	s.before, err = s.node.JournalEnd(t.Context())
	s.requireNoError(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.node.Diagnosis(context.Background()))
			t.Log(s.worker.Diagnosis(context.Background()))
		}
		s.reset(context.Background())
	})
	return s
}

// reset stops the unit and removes its files and systemd's state about it.
func (s *service) reset(ctx context.Context) {
	s.t.Helper()
	_, err := s.node.Run(ctx, "systemctl", "disable", "--now", unit)
	s.requireNoError(err)
	for _, path := range []string{configPath, "/var/lib/private/http01-proxyd", "/var/lib/http01-proxyd", dropIn} {
		s.requireNoError(s.node.RemoveFile(path))
	}
	_, err = s.node.Run(ctx, "systemctl", "daemon-reload")
	s.requireNoError(err)
	// Resets failures, restarts and the start limit. A unit that was never loaded has none.
	_, _ = s.node.Run(ctx, "systemctl", "reset-failed", unit)
}

// keepalived runs keepalived with the API VIPs on the host, or removes it.
func (s *service) keepalived(running bool) {
	s.t.Helper()
	if !running {
		s.systemctl("stop", "keepalived.service")
		s.requireNoError(s.node.RemoveFile(keepalivedConf))
		return
	}
	s.requireNoError(s.node.WriteFile(keepalivedConf, s.keepalivedConf(), 0o644))
	s.systemctl("start", "keepalived.service")
	s.until("the VIPs in their places", func(ctx context.Context) error {
		for i := range 2 {
			for h, vip := range map[*host.Host]netip.Addr{s.node: s.api[i], s.worker: s.ingress[i]} {
				if held, err := h.Holds(ctx, vip); err != nil || !held {
					return fmt.Errorf("%s does not hold %v: %w", h.Name, vip, err)
				}
			}
		}
		return nil
	})
}

// startServing returns newService with keepalived and the started unit in state Serving.
func startServing(t *testing.T) *service {
	t.Helper()
	s := newService(t, true)
	s.systemctl("start", unit)
	s.awaitStatus("Serving: holds ")
	return s
}

func (s *service) requireNoError(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) until(what string, try func(context.Context) error) {
	s.t.Helper()
	s.requireNoError(lab.Eventually(s.t.Context(), what, try))
}

func (s *service) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.node.Run(s.t.Context(), name, args...)
	s.requireNoError(err)
	return out
}

// runOnCleanup runs a command on the host when the test ends.
func (s *service) runOnCleanup(name string, args ...string) {
	s.t.Cleanup(func() {
		_, err := s.node.Run(context.Background(), name, args...)
		s.requireNoError(err)
	})
}

func (s *service) systemctl(args ...string) string {
	s.t.Helper()
	return s.run("systemctl", args...)
}

// property returns a property of the unit.
func (s *service) property(name string) string {
	s.t.Helper()
	properties, err := s.node.Properties(s.t.Context(), unit, name)
	s.requireNoError(err)
	return properties[name]
}

// awaitProperties waits until the unit's properties have these values. A reload is a
// separate state, which ends after its effect.
func (s *service) awaitProperties(want map[string]string) {
	s.t.Helper()
	s.awaitPropertiesOf(unit, want)
}

// awaitPropertiesOf is awaitProperties for another unit.
func (s *service) awaitPropertiesOf(unit string, want map[string]string) {
	s.t.Helper()
	s.until("properties of "+unit, func(ctx context.Context) error {
		got, err := s.node.Properties(ctx, unit, slices.Collect(maps.Keys(want))...)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// problemCount is what a status line has after a state that is ready: the host may have a problem too.
var problemCount = regexp.MustCompile(`^(\w+), with [^:]*:`)

// awaitStatus waits until the unit is active with this prefix of the status line, and
// returns the line.
func (s *service) awaitStatus(begin string) string {
	s.t.Helper()
	var line string
	s.until("status line "+begin, func(ctx context.Context) error {
		p, err := s.node.Properties(ctx, unit, "StatusText", "ActiveState", "SubState")
		if err != nil {
			return err
		}
		line = problemCount.ReplaceAllString(p["StatusText"], "$1:")
		if p["ActiveState"] != "active" || p["SubState"] != "running" || !strings.HasPrefix(line, begin) {
			return fmt.Errorf("%s (%s): %q", p["ActiveState"], p["SubState"], line)
		}
		return nil
	})
	return line
}

// awaitRestart waits until systemd has restarted the unit once and it serves.
func (s *service) awaitRestart() {
	s.t.Helper()
	s.awaitProperties(map[string]string{"NRestarts": "1", "ActiveState": "active"})
	s.awaitStatus("Serving: holds ")
}

// report returns the output of `http01-proxyd status -o json`.
func (s *service) report(ctx context.Context) (lab.Status, error) {
	out, err := s.node.Run(ctx, binaryPath, "status", "-o", "json")
	if err != nil {
		return lab.Status{}, err
	}
	return lab.ParseStatus(out)
}

// awaitPort waits until the table redirects to a port.
func (s *service) awaitPort(port int) {
	s.t.Helper()
	s.until(fmt.Sprintf("the table leads to port %d", port), func(ctx context.Context) error {
		report, err := s.report(ctx)
		if err == nil && (!report.Table.Present || report.Table.Port != port) {
			err = fmt.Errorf("table is %+v", report.Table)
		}
		return err
	})
}

// get requests a path from an API VIP by address, as a CA does.
func (s *service) get(vip netip.Addr, path string) (int, string, error) {
	client := &http.Client{
		Timeout:   15 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	url := "http://" + net.JoinHostPort(vip.String(), "80") + path
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host = apiName
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBytes))
	return answer.StatusCode, string(body), err
}

// challenge requests a new token through each VIP. The ingress must answer each.
func (s *service) challenge() (tokens []string) {
	s.t.Helper()
	for _, vip := range s.api {
		token := rand.Text()
		status, body, err := s.get(vip, prefix+token)
		if err != nil || status != http.StatusOK || body != keyAuthorization(token) {
			s.t.Fatalf("challenge through %v: %d %q %v, want 200 with %q", vip, status, body, err, keyAuthorization(token))
		}
		if requests := s.router.requests(token); len(requests) != 1 || requests[0].Host != apiName {
			s.t.Fatalf("requests at the ingress for token %s: %v, want one for %s", token, requests, apiName)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// override writes settings into the unit's drop-in.
func (s *service) override(settings string) {
	s.t.Helper()
	s.requireNoError(s.node.WriteFile(dropIn, "[Service]\n"+settings+"\n", 0o644))
	s.systemctl("daemon-reload")
}

// configure replaces the configuration file.
func (s *service) configure(text string) {
	s.t.Helper()
	s.requireNoError(s.node.WriteFile(configPath, text, 0o644))
}

// journal returns the entries of the unit since the test began.
func (s *service) journal() []host.Entry {
	s.t.Helper()
	entries, err := s.node.Journal(s.t.Context(), unit, s.before)
	s.requireNoError(err)
	if len(entries) == 0 {
		s.t.Fatal("the journal has no entry of the unit")
	}
	return entries
}

// hasTable reports whether the kernel has the service's table.
func (s *service) hasTable() bool {
	s.t.Helper()
	for line := range strings.Lines(s.run("nft", "list", "tables")) {
		if strings.TrimSpace(line) == "table "+lab.ServiceTable {
			return true
		}
	}
	return false
}

// wantClosed expects that port 80 of the API VIPs refuses connections.
func (s *service) wantClosed() {
	s.t.Helper()
	for _, vip := range s.api {
		if status, body, err := s.get(vip, prefix+"x"); err == nil {
			s.t.Errorf("%v answers %d %q, want a refused connection", vip, status, body)
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			s.t.Errorf("%v: %v, want a refused connection", vip, err)
		}
	}
}

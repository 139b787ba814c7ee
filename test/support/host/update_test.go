// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const metricsPort = "9645"

// TestDisabledDuringUpdate: an update by the machine-config-daemon disables the unit, writes its file
// and enables it seconds later, again after a failure (pkg/daemon/update.go). Meanwhile no
// connection is refused, and the service reports that it serves, also after a restart.
func TestDisabledDuringUpdate(t *testing.T) {
	s := newService(t, true)
	s.configure("metrics: {listenAddress: \":" + metricsPort + "\"}\n")
	s.systemctl("enable", "--now", unit)
	s.awaitStatus("Serving: holds ")
	before, err := s.report(t.Context())
	s.requireNoError(err)
	l := s.load()
	for _, restarts := range []bool{false, true} {
		s.systemctl("disable", unit)
		s.requireNoError(s.node.Install(filepath.Join(host.Repository(), "systemd", unit), unitPath, 0o644))
		s.systemctl("daemon-reload")
		if restarts {
			s.systemctl("restart", unit)
		}
		s.expectServing("disabled")
		s.awaitAnswers(l, perSecond)
		now := s.expectServing("disabled")
		if since := now.LastTransitionTime; !restarts && since != before.Condition().LastTransitionTime {
			t.Errorf("the condition changed at %v: %+v", since, now)
		}
		s.systemctl("enable", unit)
		s.systemctl("daemon-reload")
		s.expectServing("enabled")
	}
	l.end()
	t.Log(l)
	if l.refused.Load() > 0 || l.lost.Load() > 0 {
		t.Errorf("%v: %q", l, l.failures)
	}
}

// awaitAnswers waits until n more requests of a load were answered.
func (s *service) awaitAnswers(l *load, n int64) {
	s.t.Helper()
	want := l.answered.Load() + n
	s.until(fmt.Sprintf("%d answers", n), func(context.Context) error {
		if got := l.answered.Load(); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

// expectServing expects that the service reports in every form that it serves, while systemd reports
// this state of the unit's file. It returns the condition.
func (s *service) expectServing(unitFile string) lab.Condition {
	s.t.Helper()
	if got := s.property("UnitFileState"); got != unitFile {
		s.t.Errorf("the unit is %s, want %s", got, unitFile)
	}
	s.awaitStatus("Serving: holds ")
	seen, err := s.report(s.t.Context())
	s.requireNoError(err)
	c := seen.Condition()
	if c.Status != "True" || c.Reason != "Serving" {
		s.t.Errorf("%s, but %+v", unitFile, c)
	}
	const ready = `http01_proxy_ready{reason="Serving"} 1`
	metrics := s.run("curl", "-sS", "http://"+s.nodeIP[0].String()+":"+metricsPort+"/metrics")
	if !strings.Contains(metrics, ready) {
		s.t.Errorf("%s, but the metrics do not contain %s:\n%s", unitFile, ready, metrics)
	}
	checked, err := lab.ParseCheck(s.run(binaryPath, "check", "--only", "service", "-o", "json"))
	s.requireNoError(err)
	if found := checked.Check("service"); found.Outcome != "ok" || !strings.HasPrefix(found.Text, "Serving: ") {
		s.t.Errorf("%s, but check reports %+v", unitFile, found)
	}
	return c
}

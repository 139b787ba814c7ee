// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// check runs the check command on the control-plane node.
func (s *service) check(ctx context.Context) (lab.CheckReport, error) {
	out, err := s.node.Run(ctx, binaryPath, "check", "--name", apiName, "-o", "json")
	// 3: a problem; 4: without an API server, necessary checks cannot end.
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3 && exit.ExitCode() != 4) {
		return lab.CheckReport{}, err
	}
	return lab.ParseCheck(out)
}

// awaitFinding waits until check reports exactly this finding for a check, with a part of its text.
func (s *service) awaitFinding(check, id, part string) {
	s.t.Helper()
	s.until(id+" by check", func(ctx context.Context) error {
		r, err := s.check(ctx)
		if err != nil {
			return err
		}
		c := r.Check(check)
		if len(c.Findings) != 1 || c.Findings[0].ID != id || !strings.Contains(c.Findings[0].Message+". "+
			c.Findings[0].Remediation, part) {
			return fmt.Errorf("%s: %+v", check, c)
		}
		return nil
	})
}

// TestCheckNamesDropIns adds drop-ins that each take away something that the service needs.
func TestCheckNamesDropIns(t *testing.T) {
	s := startServing(t)
	r, err := s.check(t.Context())
	s.requireNoError(err)
	if c := r.Check("service"); c.Outcome != "ok" || !strings.HasPrefix(c.Text, "Serving: ") {
		t.Errorf("before: %+v", c)
	}
	for _, tt := range []struct{ setting, check, id, text string }{
		{"CapabilityBoundingSet=", "nftables", "nftables-rejected", "CAP_NET_ADMIN"},
		{"AmbientCapabilities=", "nftables", "nftables-rejected", "CAP_NET_ADMIN"},
		{"RestrictAddressFamilies=~AF_NETLINK", "service", "service-not-running", "; changed by " + dropIn},
		{"SystemCallFilter=~epoll_ctl", "service", "service-not-running", "; changed by " + dropIn},
	} {
		t.Run(tt.setting, func(*testing.T) {
			s.override(tt.setting)
			// The service may not become ready, and systemd restarts it.
			s.systemctl("restart", "--no-block", unit)
			s.awaitFinding(tt.check, tt.id, tt.text)
		})
	}
	s.requireNoError(s.node.RemoveFile(dropIn))
	s.systemctl("daemon-reload")
	s.systemctl("restart", unit)
	s.awaitStatus("Serving: holds ")
	s.systemctl("stop", unit)
	s.awaitFinding("service", "service-not-running", unit+" is inactive")
}

// TestServiceCommands holds that the commands of the findings about the service end each fault.
func TestServiceCommands(t *testing.T) {
	s := startServing(t)
	for _, tt := range []struct {
		name, id string
		inject   func()
	}{
		{"stopped", "service-not-running", func() { s.systemctl("stop", unit) }},
		{"disabled", "service-not-running", func() { s.systemctl("disable", "--now", unit) }},
		{"failed", "service-not-running", func() {
			s.systemctl("stop", unit)
			s.override("Restart=no\nExecStartPre=/bin/false")
			_, _ = s.node.Run(t.Context(), "systemctl", "start", unit)
			s.requireNoError(s.node.RemoveFile(dropIn))
			s.systemctl("daemon-reload")
		}},
		{"hanging", "service-unresponsive", func() { s.run("kill", "-STOP", s.property("MainPID")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.inject()
			s.awaitFinding("service", tt.id, "")
			r, err := s.check(t.Context())
			s.requireNoError(err)
			commands := r.Commands(tt.id)
			if len(commands) == 0 {
				t.Fatalf("no command: %+v", r.Check("service"))
			}
			for _, command := range commands {
				s.run("sh", "-c", command)
			}
			s.awaitStatus("Serving: holds ")
		})
	}
}

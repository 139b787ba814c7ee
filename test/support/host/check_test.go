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

// awaitFinding waits until check reports exactly this finding for the service, with a part
// of its text. The checks of kernel and port must be ok.
func (s *service) awaitFinding(id, part string) {
	s.t.Helper()
	s.until(id+" by check", func(ctx context.Context) error {
		r, err := s.check(ctx)
		if err != nil {
			return err
		}
		for _, name := range []string{"nftables", "port", "vips", "config"} {
			if c := r.Check(name); c.Outcome != "ok" {
				return fmt.Errorf("%s: %+v", name, c)
			}
		}
		c := r.Check("service")
		if len(c.Findings) != 1 || c.Findings[0].ID != id || !strings.Contains(c.Findings[0].Message+". "+c.Findings[0].Remediation, part) {
			return fmt.Errorf("service: %+v", c)
		}
		return nil
	})
}

// TestCheckNamesTheSandbox adds drop-ins that each take away something that the service
// needs.
func TestCheckNamesTheSandbox(t *testing.T) {
	s := startServing(t)
	r, err := s.check(t.Context())
	s.requireNoError(err)
	if c := r.Check("service"); c.Outcome != "ok" || !strings.HasPrefix(c.Text, "Serving: ") {
		t.Errorf("before: %+v", c)
	}
	for _, tt := range []struct{ setting, text string }{
		{"CapabilityBoundingSet=", "CapabilityBoundingSet= lacks CAP_NET_ADMIN"},
		{"AmbientCapabilities=", "AmbientCapabilities= lacks CAP_NET_ADMIN"},
		{"RestrictAddressFamilies=~AF_NETLINK", "RestrictAddressFamilies= denies AF_NETLINK"},
		{"SystemCallFilter=~epoll_ctl", "SystemCallFilter= denies epoll_ctl"},
		{"PrivateNetwork=yes", "PrivateNetwork=yes hides the host's network"},
	} {
		t.Run(tt.setting, func(*testing.T) {
			s.override(tt.setting)
			// The service may not become ready, and systemd restarts it.
			s.systemctl("restart", "--no-block", unit)
			s.awaitFinding("sandbox-denies", tt.text+". Remove that setting from the drop-in ("+dropIn+")")
		})
	}
	s.requireNoError(s.node.RemoveFile(dropIn))
	s.systemctl("daemon-reload")
	s.systemctl("restart", unit)
	s.awaitStatus("Serving: holds ")
	// check does not report the shipped unit as the cause of a stopped service.
	s.systemctl("stop", unit)
	s.awaitFinding("service-not-running", unit+" is inactive")
}

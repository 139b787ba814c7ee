// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const (
	microShiftDir = "/etc/microshift"
	internal      = "10.44.0.0" // the address after 10.43.0.0/16
	loEvents      = "/run/lo-events"
	watcher       = "lo-events.service"
)

// microShift makes the host a MicroShift host with manageAdvertiseAddress.
func microShift(t *testing.T) *service {
	t.Helper()
	s := newService(t, false)
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(microShiftDir)) })
	s.requireNoError(s.node.WriteFile(microShiftDir+"/config.yaml", "node: {nodeIP: 192.0.2.11}\n", 0o644))
	s.configure("microshift: {manageAdvertiseAddress: true}\n")
	return s
}

// startManaged starts the unit and waits until the address is on lo.
func (s *service) startManaged() {
	s.t.Helper()
	s.systemctl("start", unit)
	s.awaitStatus("NotRequired: MicroShift's router serves port 80 of 192.0.2.11, according to its configuration")
	s.awaitInternal(true)
}

// killAndAwaitRestart kills the process and waits for the next one.
func (s *service) killAndAwaitRestart(restarts string) {
	s.t.Helper()
	s.run("kill", "-KILL", s.property("MainPID"))
	s.awaitProperties(map[string]string{"NRestarts": restarts, "ActiveState": "active"})
	s.awaitStatus("NotRequired: ")
}

func (s *service) hasInternal(ctx context.Context) (bool, error) {
	out, err := s.node.Run(ctx, "ip", "-o", "address", "show", "dev", "lo", "to", internal)
	return strings.TrimSpace(out) != "", err
}

func (s *service) awaitInternal(want bool) {
	s.t.Helper()
	s.until("the internal address", func(ctx context.Context) error {
		has, err := s.hasInternal(ctx)
		if err == nil && has != want {
			err = fmt.Errorf("on lo: %v, want %v", has, want)
		}
		return err
	})
}

// TestInternalAddressStays holds that the address exists without a gap while the service is
// enabled, over restarts and crashes. A manual `cleanup` does not remove the address of a
// running service.
func TestInternalAddressStays(t *testing.T) {
	s := microShift(t)
	s.startManaged()
	s.systemctl("enable", unit)
	s.run("systemd-run", "--quiet", "--unit="+watcher, "sh", "-c", "exec ip -o monitor address >"+loEvents)
	t.Cleanup(func() { _, _ = s.node.Run(context.Background(), "systemctl", "stop", watcher) })
	const canary = "198.51.100.77/32" // shows that the watcher works
	s.until("the watch of lo", func(ctx context.Context) error {
		s.run("ip", "address", "replace", canary, "dev", "lo")
		s.run("ip", "address", "del", canary, "dev", "lo")
		events, err := s.node.Run(ctx, "cat", loEvents) // systemd-run does not wait for the shell that creates it
		if err == nil && !strings.Contains(events, canary) {
			err = fmt.Errorf("%s has %q", loEvents, events)
		}
		return err
	})
	for range 3 {
		s.systemctl("restart", unit)
		s.awaitStatus("NotRequired: ")
	}
	for _, restarts := range []string{"1", "2"} {
		s.killAndAwaitRestart(restarts)
	}
	s.run(binaryPath, "cleanup")
	if events := s.run("cat", loEvents); strings.Contains(events, internal) {
		t.Errorf("the address was touched:\n%s", events)
	}
	s.awaitInternal(true)

	s.requireNoError(s.node.Reboot(t.Context()))
	s.awaitStatus("NotRequired: ")
	s.awaitInternal(true)
	s.systemctl("stop", unit)
	s.awaitInternal(false)
}

// TestInternalAddressGoes holds that the address is removed when the service ends
// permanently.
func TestInternalAddressGoes(t *testing.T) {
	for name, end := range map[string]func(*service){
		"stopped": func(s *service) {
			s.systemctl("stop", unit)
			if has, err := s.hasInternal(s.t.Context()); err != nil || has {
				s.t.Errorf("after the stop it is on lo: %v, %v", has, err)
			}
		},
		"killed, and not started again": func(s *service) {
			s.override("Restart=no")
			s.run("kill", "-KILL", s.property("MainPID"))
			s.awaitProperties(map[string]string{"ActiveState": "failed"})
		},
		"its unit is removed": func(s *service) {
			aside := "/run/units-aside"
			s.run("sh", "-c", fmt.Sprintf("mkdir %s && mv %s %s %s", aside, unitPath, companionPath, aside))
			s.runOnCleanup("sh", "-c", fmt.Sprintf("mv %s/* %s && rmdir %s && systemctl daemon-reload", aside,
				"/etc/systemd/system", aside))
			s.systemctl("daemon-reload")
			s.systemctl("stop", unit)
		},
		"management switched off": func(s *service) { s.configure("microshift: {manageAdvertiseAddress: false}\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := microShift(t)
			s.startManaged()
			end(s)
			s.awaitInternal(false)
		})
	}
}

// TestInternalAddressOfOthers holds that the service does not remove an address that
// another program added.
func TestInternalAddressOfOthers(t *testing.T) {
	s := microShift(t)
	s.run("ip", "address", "add", internal+"/32", "dev", "lo")
	s.runOnCleanup("ip", "address", "del", internal+"/32", "dev", "lo")
	s.startManaged()
	s.systemctl("restart", unit)
	s.killAndAwaitRestart("1")
	s.systemctl("stop", unit)
	s.awaitCompanionsEnd()
	if out := s.run(binaryPath, "cleanup"); strings.Contains(out, internal) {
		t.Errorf("cleanup: %s", out)
	}
	s.awaitInternal(true)
}

// TestMicroShiftFileUnreadable holds that a file that only root can read is reported, and
// used once it is readable.
func TestMicroShiftFileUnreadable(t *testing.T) {
	s := microShift(t)
	s.run("chmod", "0600", microShiftDir+"/config.yaml")
	s.systemctl("start", "--no-block", unit)
	s.until("the reported file", func(ctx context.Context) error {
		r, err := s.report(ctx)
		if err == nil && !strings.Contains(r.Conditions[0].Message,
			"the service does not run as root: make the file world-readable (chmod a+rX): open "+microShiftDir+
				"/config.yaml: permission denied") {
			err = fmt.Errorf("%+v", r.Conditions)
		}
		return err
	})
	s.awaitInternal(false)
	s.run("chmod", "a+rX", microShiftDir+"/config.yaml")
	s.awaitStatus("NotRequired: MicroShift's router serves port 80 of 192.0.2.11, according to its configuration")
	s.awaitInternal(true)
}

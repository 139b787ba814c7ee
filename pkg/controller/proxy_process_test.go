// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// startServing starts the service with a VIP and an ingress that answers.
func startServing(t *testing.T, env ...string) *service {
	t.Helper()
	addNetwork(t, writeKey)
	s := newService(t, explicit)
	s.start(env)
	addVIP(t)
	s.awaitReason(report.Serving)
	return s
}

// proxyPID returns the PID of the service's proxy process.
func (s *service) proxyPID() int { return s.childPID(child.Proxy) }

// childPID returns the PID of the service's only child that runs a command; 0 if there is
// not exactly one.
func (s *service) childPID(command string) int {
	s.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	if err != nil || len(lists) == 0 {
		s.t.Fatalf("cannot list the children: %v", err)
	}
	var found []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a thread that ended
			s.t.Fatal(err)
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			must(s.t, err)
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if args := strings.Split(string(line), "\x00"); err == nil && len(args) > 1 && args[1] == command {
				found = append(found, pid)
			}
		}
	}
	if len(found) != 1 {
		return 0
	}
	return found[0]
}

// awaitNewProxy waits for a proxy process other than the old one.
func (s *service) awaitNewProxy(old int) int {
	s.t.Helper()
	pid := 0
	if !nstest.Poll(func() bool {
		pid = s.proxyPID()
		return pid != 0 && pid != old
	}) {
		s.t.Fatalf("no successor of process %d", old)
	}
	return pid
}

func procStatus(t *testing.T, pid int, names ...string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	found := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && slices.Contains(names, name) {
			found[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return found
}

const noCapabilities = "0000000000000000"

// checkUnprivileged checks that a process has no privilege and no user of this host.
func checkUnprivileged(t *testing.T, pid int) {
	t.Helper()
	want := map[string]string{
		"CapInh": noCapabilities, "CapPrm": noCapabilities, "CapEff": noCapabilities, "CapAmb": noCapabilities,
		"NoNewPrivs": "1", "Seccomp": "2",
		"Uid": "65520 65520 65520 65520", "Gid": "65520 65520 65520 65520", "Groups": "",
	}
	if diff := cmp.Diff(want, procStatus(t, pid, slices.Collect(maps.Keys(want))...)); diff != "" {
		t.Errorf("process %d (-want +got):\n%s", pid, diff)
	}
}

// The process that reads from the network has no privilege on the host.
func TestProxyIsUnprivileged(t *testing.T) {
	s := startServing(t)
	checkAnswered(t, "by the proxy process")
	pid := s.awaitNewProxy(0)
	checkUnprivileged(t, pid)
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	must(t, err)
	for _, fd := range open {
		target, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		ours := strings.HasPrefix(target, "socket:") || strings.HasPrefix(target, "anon_inode:") ||
			strings.HasPrefix(target, "pipe:") ||
			target == "/dev/null" || strings.HasPrefix(target, "/sys/fs/cgroup/") // the runtime's, for GOMAXPROCS
		if !ours && target != "" {
			t.Errorf("the process has %s open", target)
		}
	}
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil ||
		strings.Contains(string(environment), "NOTIFY_SOCKET") {
		t.Errorf("the process's environment: %q, %v", environment, err)
	}
	if controller := procStatus(t, s.cmd.Process.Pid, "NoNewPrivs", "CapEff"); controller["CapEff"] == noCapabilities {
		t.Errorf("the controller has no capability either, so this shows nothing: %v", controller)
	}
	s.stop()
}

// isStopped reports whether every thread of a process is stopped (State of
// proc_pid_status(5)) or the process is gone.
func isStopped(pid int) bool {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, os.ErrNotExist) {
		return true
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
		text, err := os.ReadFile(path)
		return err != nil || !strings.Contains(string(text), "\nState:\tT (stopped)")
	})
}

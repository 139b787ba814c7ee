// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"strings"
	"testing"
)

const (
	microShiftUnit = "microshift.service"
	microShiftLink = "/run/systemd/units/invocation:" + microShiftUnit
	// edited moves the router to another port, so that the service uses the node's port 80,
	// and changes the internal address.
	edited  = "node: {nodeIP: 192.0.2.11}\ningress: {ports: {http: 8080}}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n"
	pending = microShiftDir + "/config.yaml changed since MicroShift was started: it takes effect after systemctl restart microshift"
)

// microShiftRuns runs a unit with MicroShift's name that only sleeps. MicroShift itself is
// a whole cluster that needs a registry with credentials and its own machine. The test
// depends on systemd, which is real: it reports the starts of the unit, and the service
// reads the files at these starts as MicroShift does.
func microShiftRuns(t *testing.T) *service {
	t.Helper()
	s := microShift(t)
	s.requireNoError(s.node.WriteFile("/etc/systemd/system/"+microShiftUnit, "[Service]\nExecStart=sleep infinity\n", 0o644))
	s.runOnCleanup("systemctl", "daemon-reload")
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile("/etc/systemd/system/" + microShiftUnit)) })
	s.runOnCleanup("systemctl", "stop", microShiftUnit)
	s.systemctl("daemon-reload")
	s.systemctl("start", microShiftUnit)
	return s
}

func (s *service) microShiftFile(text string) {
	s.t.Helper()
	s.requireNoError(s.node.WriteFile(microShiftDir+"/config.yaml", text, 0o644))
}

// awaitState waits for a reason and a matching message.
func (s *service) awaitState(reason string, is func(message string) bool) {
	s.t.Helper()
	s.awaitMessage("HTTP01ChallengeProxyReady", reason, is)
}

// awaitStateWithoutPending waits for a state whose message names no pending file.
func (s *service) awaitStateWithoutPending(reason string) {
	s.t.Helper()
	s.awaitState(reason, func(text string) bool { return !reportsPending(text) && !strings.Contains(text, lastGood) })
}

const lastGood = "MicroShift's last good configuration stays in use"

func reportsPending(text string) bool { return strings.Contains(text, pending) }

// TestMicroShiftStarts holds that the files as MicroShift read them stay in force until its
// next start, also over restarts of the service. The service detects the starts inside its
// sandbox as an unprivileged user.
func TestMicroShiftStarts(t *testing.T) {
	s := microShiftRuns(t)
	s.systemctl("start", unit)
	s.awaitStateWithoutPending("NotRequired")
	first := s.run("readlink", microShiftLink)
	if uid := s.process(s.property("MainPID"))["Uid"]; strings.HasPrefix(uid, "0") {
		t.Errorf("the user IDs of the service are %s", uid)
	}

	s.microShiftFile(edited)
	s.awaitState("NotRequired", reportsPending)
	s.systemctl("restart", unit)
	s.awaitState("NotRequired", reportsPending)
	s.killAndAwaitRestart("1")
	s.awaitState("NotRequired", reportsPending)
	s.awaitInternal(true)
	// check uses the same files, with the service and without it.
	for _, act := range []string{"start", "stop"} {
		s.systemctl(act, unit)
		r, err := s.check(t.Context())
		s.requireNoError(err)
		if text := r.Check("vips").Text; !strings.Contains(text, "port 80 of 192.0.2.11") || !strings.Contains(text, pending) {
			t.Errorf("%s: vips: %s", act, text)
		}
	}
	s.systemctl("start", unit)
	s.systemctl("restart", microShiftUnit)
	if next := s.run("readlink", microShiftLink); next == first {
		t.Fatalf("the invocation is still %s", next)
	}
	s.awaitStateWithoutPending("UpstreamUnreachable") // nothing listens on port 8080, which the service now uses
	s.awaitInternal(false)

	// The file becomes invalid while the service is stopped.
	s.systemctl("stop", unit)
	s.microShiftFile("node: {nodeIP: nonsense}\n")
	s.systemctl("start", "--no-block", unit)
	s.awaitState("UpstreamUnreachable", func(text string) bool {
		return strings.Contains(text, "config.yaml, line 1") && strings.Contains(text, lastGood)
	})
	s.systemctl("stop", microShiftUnit)
	s.systemctl("restart", "--no-block", unit)
	s.awaitState("UpstreamUnreachable", func(text string) bool { return strings.Contains(text, lastGood) })
	s.microShiftFile("node: {nodeIP: 192.0.2.11}\n")
	s.awaitStateWithoutPending("NotRequired")
}

// TestMicroShiftStartedMeanwhile restarts MicroShift while the service is stopped.
func TestMicroShiftStartedMeanwhile(t *testing.T) {
	s := microShiftRuns(t)
	s.systemctl("start", unit)
	s.awaitStateWithoutPending("NotRequired")
	s.systemctl("stop", unit)
	s.microShiftFile(edited)
	s.systemctl("restart", microShiftUnit)
	s.systemctl("start", unit)
	s.awaitStateWithoutPending("UpstreamUnreachable")
}

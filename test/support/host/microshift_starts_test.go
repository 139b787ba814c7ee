// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"strings"
	"testing"
)

const (
	microShiftUnit = "microshift.service"
	// edited moves the router to another port, so that the service uses the node's port 80,
	// and changes the internal address.
	edited  = "node: {nodeIP: 192.0.2.11}\ningress: {ports: {http: 8080}}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n"
	pending = microShiftDir +
		"/config.yaml has changed since MicroShift started: run systemctl restart microshift"
)

// microShiftRuns runs a unit with MicroShift's name that only sleeps. MicroShift itself is
// a whole cluster that needs a registry with credentials and its own machine. The test
// depends on systemd, which is real: it reports the starts of the unit.
func microShiftRuns(t *testing.T) *service {
	t.Helper()
	s := microShift(t)
	s.requireNoError(s.node.WriteFile("/etc/systemd/system/"+microShiftUnit, "[Service]\nExecStart=sleep infinity\n",
		0o644))
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

func reportsPending(text string) bool { return strings.Contains(text, pending) }

func reportsNoPending(text string) bool { return !reportsPending(text) }

// TestMicroShiftStarts holds that the state names files that are newer than the running
// MicroShift. The service detects the starts inside its sandbox as an unprivileged user. The
// internal address that MicroShift uses stays until its next start.
func TestMicroShiftStarts(t *testing.T) {
	s := microShiftRuns(t)
	s.systemctl("start", unit)
	s.awaitState("NotRequired", reportsNoPending)
	s.awaitInternal(true)
	if uid := s.process(s.property("MainPID"))["Uid"]; strings.HasPrefix(uid, "0") {
		t.Errorf("the user IDs of the service are %s", uid)
	}

	s.microShiftFile(edited)
	s.awaitState("UpstreamUnreachable", reportsPending) // nothing listens on port 8080
	s.systemctl("restart", unit)
	s.awaitState("UpstreamUnreachable", reportsPending)
	s.awaitInternal(true)
	for _, act := range []string{"start", "stop"} {
		s.systemctl(act, unit)
		r, err := s.check(t.Context())
		s.requireNoError(err)
		if text := r.Check("vips").Text; !strings.Contains(text, "port 8080") || !strings.Contains(text, pending) {
			t.Errorf("%s: vips: %s", act, text)
		}
	}
	s.systemctl("start", unit)
	s.systemctl("restart", microShiftUnit)
	s.awaitState("UpstreamUnreachable", reportsNoPending)
	s.awaitInternal(false)
}

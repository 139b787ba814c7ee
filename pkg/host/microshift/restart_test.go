// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// settlingHost is a testHost that is read while its files settle.
type settlingHost struct {
	*testHost

	r    *microshift.Reader
	last microshift.Snapshot
}

// readAfter reads once, some time after the last read.
func (s *settlingHost) readAfter(after time.Duration) {
	s.t.Helper()
	s.now = s.now.Add(after)
	s.last = s.r.Read(s.now)
	save(s.t, s.r)
}

func (s *settlingHost) writeNode(last string) { s.write("node: {nodeIP: 192.0.2." + last + "}\n") }

func (s *settlingHost) dropInPath() string {
	return filepath.Join(microshift.DropInDir(s.dir), "x.yaml")
}

func (s *settlingHost) removeDropIn() {
	s.t.Helper()
	must(s.t, os.Remove(s.dropInPath()))
}

// setLaterInvocation starts MicroShift after all earlier changes, with a start time in the
// future.
func (s *settlingHost) setLaterInvocation(invocation string) {
	s.t.Helper()
	s.setInvocation(invocation)
	later := unix.NsecToTimeval(time.Now().Add(time.Hour).UnixNano())
	must(s.t, unix.Lutimes(filepath.Join(s.units, "invocation:microshift.service"), []unix.Timeval{later, later}))
}

// TestStartWhileSettling: MicroShift has read the files that existed when it was started,
// even if they had not settled when the start was noticed.
func TestStartWhileSettling(t *testing.T) {
	t.Parallel()
	const settled = 250 * time.Millisecond
	for name, tt := range map[string]struct {
		do      func(*settlingHost)
		node    string
		changed bool
		stopped bool
	}{
		"stopped, edited, started": {
			do: func(s *settlingHost) {
				s.setInvocation("")
				s.readAfter(time.Second)
				s.writeNode("9")
				s.readAfter(time.Millisecond)
				s.setInvocation("2")
				s.readAfter(60 * time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"stopped, a file removed, started": {
			do: func(s *settlingHost) {
				s.setInvocation("")
				s.readAfter(time.Second)
				s.removeDropIn()
				s.readAfter(time.Millisecond)
				s.setInvocation("2")
				s.readAfter(1500 * time.Millisecond)
				s.readAfter(500 * time.Millisecond)
			}, node: "192.0.2.1",
		},
		"edited and restarted between two reads": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"a file removed and restarted between two reads": {
			do: func(s *settlingHost) {
				s.removeDropIn()
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.readAfter(2 * time.Second)
			}, node: "192.0.2.1",
		},
		"restarted twice": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.setInvocation("3")
				s.readAfter(time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"edited again after the start": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.writeNode("10")
				s.readAfter(100 * time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9", changed: true,
		},
		"broken after the start": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.write("node: [")
				s.readAfter(100 * time.Millisecond)
				s.readAfter(settled)
				s.expect("broken", s.last, "192.0.2.9", false, true)
				s.writeNode("9")
				s.readAfter(time.Second)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"partly written at the start": {
			do: func(s *settlingHost) {
				s.write("node: {nodeIP: 192.0.2")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.writeNode("9")
				s.readAfter(10 * time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"partly written but valid at the start, complete before it by its time": {
			do: func(s *settlingHost) {
				s.write("node: {}\n")
				s.setLaterInvocation("2")
				s.readAfter(time.Second)
				s.writeNode("9")
				s.readAfter(time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"broken at the start, and corrected later": {
			do: func(s *settlingHost) {
				s.write("node: [")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.readAfter(settled)
				s.expect("broken", s.last, "192.0.2.1", false, true)
				s.writeNode("9")
				s.readAfter(time.Hour)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"restored": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.write("node: {}\n")
				s.readAfter(time.Millisecond)
				s.write("")
				s.readAfter(time.Millisecond)
				s.writeNode("9")
				s.readAfter(time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9",
		},
		"restored to the state before the start": {
			do: func(s *settlingHost) {
				s.write("node: [")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.writeNode("1")
				s.readAfter(time.Millisecond)
			}, node: "192.0.2.5",
		},
		"stopped again": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.setInvocation("")
				s.readAfter(time.Millisecond)
				s.readAfter(settled)
			}, node: "192.0.2.9", stopped: true,
		},
		"the service restarted before they settle": {
			do: func(s *settlingHost) {
				s.writeNode("9")
				s.setInvocation("2")
				s.readAfter(time.Second)
				s.r, s.last = s.startService()
			}, node: "192.0.2.9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settlingHost{testHost: newTestHost(t)}
			s.writeNode("1")
			must(t, os.Mkdir(microshift.DropInDir(s.dir), 0o700))
			extra := "node: {nodeIP: 192.0.2.5}\n"
			if tt.node == "192.0.2.9" {
				extra = "# nothing\nnode: {}\n" // config.yaml sets everything
			}
			must(t, os.WriteFile(s.dropInPath(), []byte(extra), 0o600))
			s.setInvocation("1")
			s.r, s.last = s.startService()
			tt.do(&s)
			if s.last.RetryAfter > 0 {
				t.Errorf("not settled: %+v", s.last)
			}
			s.expect("settled", s.last, tt.node, tt.changed, false)
			s.r, s.last = s.startService()
			s.expect("after a restart of the service", s.last, tt.node, tt.changed, false)
			if !tt.stopped {
				s.writeNode("99")
				s.expect("edited", s.readUntilSettled(s.r), tt.node, true, false)
				s.r, s.last = s.startService()
				s.expect("edited, after a restart of the service", s.last, tt.node, true, false)
			}
		})
	}
}

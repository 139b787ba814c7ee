// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// startAttacked starts the shipped unit with additional settings and a proxy process that
// attacks (package hostile).
func startAttacked(t *testing.T, attack, settings string) *service {
	t.Helper()
	s := newService(t, true)
	binary, err := lab.BuildServiceWith(t.Context(), "../../suites/hostile/testdata/attack.go")
	s.requireNoError(err)
	const path = "/usr/local/bin/http01-proxyd-attacked"
	s.requireNoError(s.node.Install(binary, path, 0o755))
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(path)) })
	s.override(settings + "\nExecStart=\nExecStart=@" + path + " http01-proxyd:proxy:" + attack + " run")
	s.systemctl("start", unit)
	return s
}

// awaitJournal waits until an entry of the unit has this text.
func (s *service) awaitJournal(text string) {
	s.t.Helper()
	s.until("the journal has "+text, func(context.Context) error {
		for _, e := range s.journal() {
			if strings.Contains(e["MESSAGE"], text) {
				return nil
			}
		}
		return errors.New("no such entry")
	})
}

// TestHostileStandardError (H4) holds that a line on the proxy's standard error becomes an
// entry of the service about the proxy, whatever it contains.
func TestHostileStandardError(t *testing.T) {
	s := startAttacked(t, "stderr", "")
	s.awaitJournal("<0>the controller is broken")
	s.awaitJournal("standard error: flood")
	for _, e := range s.journal() {
		message := e["MESSAGE"]
		if p := e["PRIORITY"]; p < "3" {
			t.Errorf("priority %s: %q", p, message)
		}
		if strings.Contains(message, "broken") && (e["PRIORITY"] != "4" || e["EVENT"] != "child-output" ||
			!strings.HasPrefix(message, "the proxy process wrote to its standard error: ")) {
			t.Errorf("%v", e)
		}
		if strings.ContainsAny(message, "\x1b\x07\u202e\n") {
			t.Errorf("control characters in %q", message)
		}
	}
}

// TestHostileResources holds that the service continues when the unit's memory or the
// proxy's own limit is exhausted (H5), or when the proxy takes all threads that it can get
// (H1): the proxy process ends. The thread test needs its own user, because the limit
// counts all processes of a user and other test hosts share this kernel.
func TestHostileResources(t *testing.T) {
	for _, tt := range []struct{ attack, settings, output string }{
		{attack: "memory"}, // the proxy's limit or the unit's memory, whichever is reached first
		{
			"threads", fmt.Sprintf("User=http01-hostile-%d", os.Getpid()),
			"standard error: runtime: failed to create new OS thread",
		},
	} {
		t.Run(tt.attack, func(t *testing.T) {
			s := startAttacked(t, tt.attack, tt.settings)
			pid := s.property("MainPID")
			for range 2 {
				ends := s.countProxyExits()
				s.until("another proxy process to exit", func(context.Context) error {
					if s.countProxyExits() == ends {
						return fmt.Errorf("%d exits", ends)
					}
					return nil
				})
			}
			if tt.output != "" {
				s.awaitJournal(tt.output)
			}
			s.awaitProperties(map[string]string{"MainPID": pid, "NRestarts": "0", "ActiveState": "active", "Result": "success"})
			if _, err := s.report(t.Context()); err != nil {
				t.Errorf("the status: %v", err)
			}
		})
	}
}

// countProxyExits returns how many exits of the proxy process are in the journal.
func (s *service) countProxyExits() (n int) {
	s.t.Helper()
	for _, e := range s.journal() {
		if e["EVENT"] == "proxy" {
			n++
		}
	}
	return n
}

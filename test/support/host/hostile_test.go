// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// startAttacked starts the shipped unit with a proxy process that attacks (package hostile).
func startAttacked(t *testing.T, attack string) *service {
	t.Helper()
	s := newService(t, true)
	binary, err := lab.BuildServiceWith(t.Context(), "../../suites/hostile/testdata/attack.go")
	s.requireNoError(err)
	const path = "/usr/local/bin/http01-proxyd-attacked"
	s.requireNoError(s.node.Install(binary, path, 0o755))
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(path)) })
	s.override("ExecStart=\nExecStart=@" + path + " http01-proxyd:proxy:" + attack + " run")
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
	s := startAttacked(t, "stderr")
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
// proxy's own limit is exhausted (H5), or when the proxy starts more threads than it has (H1):
// the proxy process ends.
func TestHostileResources(t *testing.T) {
	for _, tt := range []struct{ attack, output string }{
		{attack: "memory"}, // the proxy's limit or the unit's memory, whichever is reached first
		{"threads", "standard error: runtime: failed to create new OS thread"},
	} {
		t.Run(tt.attack, func(t *testing.T) {
			s := startAttacked(t, tt.attack)
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

// TestProcessesOfSameUser holds that the service starts and serves while another process on
// the host, such as one of a pod, has its user ID and takes what the kernel counts for each
// user ID. The user is one of its own, because other test hosts share this kernel.
func TestProcessesOfSameUser(t *testing.T) {
	binary, err := lab.BuildServiceWith(t.Context(), "../../suites/hostile/testdata/sameuser.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"threads", "signals", "pipes", "inotify"} {
		t.Run(what, func(t *testing.T) {
			s := newService(t, true)
			s.configure("metrics:\n  listenAddress: 127.0.0.1:9645\n")
			s.override(fmt.Sprintf("User=http01-%s-%d", what, os.Getpid()))
			s.systemctl("start", unit)
			s.awaitStatus("Serving: holds ")
			user := strings.Fields(s.process(s.property("MainPID"))["Uid"])[0]
			s.systemctl("stop", unit)
			s.takeAs(user, binary, what)
			s.systemctl("start", unit)
			s.awaitStatus("Serving: holds ")
			s.challenge()
			// The proxy process is replaced too.
			proxy := s.proxyPID()
			s.run("kill", "-KILL", proxy)
			s.until("another proxy process", func(context.Context) error {
				if s.proxyPID() == proxy {
					return errors.New("the same")
				}
				return nil
			})
			s.awaitStatus("Serving: holds ")
			s.challenge()
		})
	}
}

// takeAs has another process of this kernel take what the kernel counts for a user ID.
func (s *service) takeAs(user, binary, what string) {
	s.t.Helper()
	id, err := strconv.ParseUint(user, 10, 32)
	s.requireNoError(err)
	const path = "/usr/local/bin/http01-sameuser" // where this user can run it
	s.requireNoError(s.node.Install(binary, path, 0o755))
	s.t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(path)) })
	cmd := exec.Command(filepath.Join(s.node.Root, path))
	cmd.Env = []string{"HTTP01_SAMEUSER=" + what}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	s.requireNoError(err)
	s.requireNoError(cmd.Start())
	s.t.Cleanup(func() { s.requireNoError(cmd.Process.Kill()); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "taken\n" {
		s.t.Fatalf("the other process: %q, %v", line, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// must ends the test after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service is the service in a process of its own.
type service struct {
	t      testing.TB
	dir    string
	cmd    *exec.Cmd
	log    *nstest.Log
	notify chan string // its messages to the service manager
	exited chan error
}

// newService creates the directory with a configuration; "" is an absent file.
func newService(t testing.TB, config string) *service {
	t.Helper()
	nstest.Require(t)
	s := &service{t: t, dir: t.TempDir(), log: &nstest.Log{}, notify: make(chan string, 1000), exited: make(chan error, 1)}
	if config != "" {
		s.configure(config)
	}
	return s
}

// start starts the service, through the command wrapper if there is one.
func (s *service) start(env []string, wrapper ...string) {
	s.t.Helper()
	socket := filepath.Join(s.dir, "notify.sock")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must(s.t, err)
	s.t.Cleanup(func() { _ = manager.Close() })
	go s.receiveNotifications(manager)
	exe, err := os.Executable()
	must(s.t, err)
	argv := slices.Concat(wrapper, []string{exe})
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Env = append(append(os.Environ(), serviceDir+"="+s.dir, "NOTIFY_SOCKET="+socket), env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	must(s.t, s.cmd.Start())
	go func() { s.exited <- s.cmd.Wait() }()
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		if s.t.Failed() {
			s.t.Logf("the service's log:\n%s", s.log.String())
		}
	})
}

func (s *service) receiveNotifications(manager *net.UnixConn) {
	buf := make([]byte, 8192)
	for {
		n, err := manager.Read(buf)
		if err != nil {
			return
		}
		select {
		case s.notify <- string(buf[:n]):
		default:
		}
	}
}

// awaitNotification waits until the manager gets a message with a prefix.
func (s *service) awaitNotification(prefix string) string {
	s.t.Helper()
	deadline := time.After(nstest.Timeout)
	for {
		select {
		case message := <-s.notify:
			if strings.HasPrefix(message, prefix) {
				return message
			}
		case err := <-s.exited:
			s.t.Fatalf("the service ended (%v) before it sent %q", err, prefix)
		case <-deadline:
			s.t.Fatalf("the service has not sent %q", prefix)
		}
	}
}

func (s *service) configure(text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "config.yaml")
	must(s.t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(s.t, os.Rename(path+".new", path))
}

// await polls the service's report until ok holds.
func (s *service) await(what string, ok func(report.Report) bool) report.Report {
	s.t.Helper()
	var last report.Report
	var err error
	if !nstest.Poll(func() bool {
		last, err = client.Fetch(s.t.Context(), filepath.Join(s.dir, "status.sock"))
		return err == nil && ok(last)
	}) {
		s.t.Fatalf("no %s: %+v, %v", what, last, err)
	}
	return last
}

func (s *service) awaitReason(want report.Reason) report.Report {
	s.t.Helper()
	return s.await("reason "+string(want), func(r report.Report) bool { return r.Condition().Reason == want })
}

// awaitLog waits until the log has a text: another goroutine writes it.
func (s *service) awaitLog(text string) {
	s.t.Helper()
	if !nstest.Poll(func() bool { return strings.Contains(s.log.String(), text) }) {
		s.t.Errorf("the log lacks %q", text)
	}
}

// stop terminates the service and requires exit code 0.
func (s *service) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	s.awaitExit()
}

func (s *service) signal(number syscall.Signal) {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(number))
}

func (s *service) awaitExit() {
	s.t.Helper()
	select {
	case err := <-s.exited:
		if err != nil {
			s.t.Errorf("the service ended with %v", err)
		}
	case <-time.After(nstest.Timeout):
		s.t.Fatal("the service does not end")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "status.sock")); !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("the status socket was not removed: %v", err)
	}
	if out := nstest.Run(s.t, "nft", "list", "ruleset"); out != "" {
		s.t.Errorf("not removed from the kernel:\n%s", out)
	}
}

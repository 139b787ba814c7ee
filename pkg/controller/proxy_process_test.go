// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

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
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a thread that has ended
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
		"CapInh": noCapabilities, "CapPrm": noCapabilities, "CapEff": noCapabilities, "CapAmb": noCapabilities, "NoNewPrivs": "1", "Seccomp": "2",
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
		ours := strings.HasPrefix(target, "socket:") || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "pipe:") ||
			target == "/dev/null" || strings.HasPrefix(target, "/sys/fs/cgroup/") // the runtime's, for GOMAXPROCS
		if !ours && target != "" {
			t.Errorf("the process has %s open", target)
		}
	}
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || strings.Contains(string(environment), "NOTIFY_SOCKET") {
		t.Errorf("the process's environment: %q, %v", environment, err)
	}
	if controller := procStatus(t, s.cmd.Process.Pid, "NoNewPrivs", "CapEff"); controller["CapEff"] == noCapabilities {
		t.Errorf("the controller has no capability either, so this shows nothing: %v", controller)
	}
	s.stop()
}

// load makes requests from several clients until it is stopped.
type load struct {
	stop             chan struct{}
	clients          sync.WaitGroup
	answered, failed atomic.Int64
	refused          atomic.Int64
}

const clients = 8

func startLoad() *load {
	l := &load{stop: make(chan struct{})}
	for range clients {
		l.clients.Go(func() {
			client := http.Client{Timeout: nstest.Timeout, Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				select {
				case <-l.stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
				resp, err := client.Get("http://" + vip + token)
				switch {
				case err == nil:
					_ = resp.Body.Close()
					l.answered.Add(1)
				case errors.Is(err, syscall.ECONNREFUSED):
					l.refused.Add(1)
				default:
					l.failed.Add(1)
				}
			}
		})
	}
	return l
}

func (l *load) finish() {
	close(l.stop)
	l.clients.Wait()
}

// A killed process loses the requests that it has accepted. The next process gets the
// connections of the backlog.
func TestProxyIsKilled(t *testing.T) {
	s := startServing(t)
	l := startLoad()
	const kills = 5
	pid := 0
	for range kills {
		pid = s.awaitNewProxy(pid)
		before := l.answered.Load()
		if !nstest.Poll(func() bool { return l.answered.Load() > before+20 }) {
			t.Fatal("no request is answered")
		}
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	s.awaitNewProxy(pid)
	l.finish()
	t.Logf("%d answered, %d failed by %d kills, %d refused", l.answered.Load(), l.failed.Load(), kills, l.refused.Load())
	if l.refused.Load() > 0 || l.failed.Load() > kills*clients {
		t.Errorf("%d refused; %d failed, where %d can have been in flight", l.refused.Load(), l.failed.Load(), kills*clients)
	}
	checkAnswered(t, "afterwards")
	s.awaitLog("has exited (signal: killed): requests in flight are lost; the next process takes over its ports")
	// Frequent exits change the condition, although each process has a successor.
	r := s.await("the state", func(r report.Report) bool { return r.Condition().Reason == report.ProxyUnavailable })
	if r.Condition().Status != "False" || !strings.Contains(r.Condition().Message, "(exit 5 within a minute)") {
		t.Errorf("%+v", r.Condition())
	}
	s.stop()
}

// A process that hangs is replaced.
func TestProxyHangs(t *testing.T) {
	s := startServing(t, serviceTiming+`={"ProxySilenceLimit": 5000000000}`)
	pid := s.awaitNewProxy(0)
	must(t, unix.Kill(pid, unix.SIGSTOP))
	// Until all of its threads have stopped it can accept a connection, which ends with it.
	if !nstest.Poll(func() bool { return isStopped(pid) }) {
		t.Fatal("the process continues")
	}
	begin := time.Now()
	checkAnswered(t, "meanwhile")
	t.Logf("a challenge waited %v", time.Since(begin))
	s.awaitNewProxy(pid)
	s.awaitLog("has sent nothing for ")
	s.awaitReason(report.Serving) // one exit is not frequent
	s.stop()
}

// TestControllerStandsStill: while the controller does not run for ten seconds, the proxy
// process answers each client, although nobody reads its events. The controller then has the
// same process and all counts. No request is lost, and nothing is logged.
func TestControllerStandsStill(t *testing.T) {
	s := startServing(t)
	pid := s.awaitNewProxy(0)
	before := s.await("a report", func(report.Report) bool { return true })
	l := startLoad()
	controller := s.cmd.Process.Pid
	must(t, unix.Kill(controller, unix.SIGSTOP))
	if !nstest.Poll(func() bool { return isStopped(controller) }) {
		t.Fatal("the controller continues")
	}
	began := l.answered.Load()
	<-time.After(10 * time.Second) // the fault
	nstest.Await(t, "a pipe of events that is half full", func() bool {
		unread, size := pipeOfEvents(t, pid)
		return unread >= size/2
	})
	meanwhile := l.answered.Load() - began
	must(t, unix.Kill(controller, unix.SIGCONT))
	l.finish()
	answered := uint64(l.answered.Load())
	after := s.await("all challenges in the report", func(r report.Report) bool {
		return r.Traffic.Durations.Count-before.Traffic.Durations.Count >= answered
	})
	t.Logf("%d answered, %d of them meanwhile", answered, meanwhile)
	if n := after.Traffic.Durations.Count - before.Traffic.Durations.Count; n != answered || l.refused.Load() > 0 || l.failed.Load() > 0 || meanwhile == 0 {
		t.Errorf("%d reported, %d answered, %d refused, %d failed; %d answered meanwhile", n, answered, l.refused.Load(), l.failed.Load(), meanwhile)
	}
	if now := s.awaitNewProxy(0); now != pid {
		t.Errorf("process %d was replaced by %d", pid, now)
	}
	if text := s.log.String(); strings.Contains(text, "the proxy process") {
		t.Error("the proxy process is in the journal")
	}
	s.stop()
}

// pipeOfEvents returns how many bytes wait in the pipe of a child's events, and its size.
func pipeOfEvents(t *testing.T, pid int) (unread, size int) {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, path := range all {
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, "pipe:") || filepath.Base(path) == "2" {
			continue
		}
		pipe, err := os.Open(path)
		must(t, err)
		defer pipe.Close()
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.SIOCINQ)
		must(t, err)
		if n >= unread { // the program has no other pipe with bytes
			unread = n
			size, err = unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0)
			must(t, err)
		}
	}
	return unread, size
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

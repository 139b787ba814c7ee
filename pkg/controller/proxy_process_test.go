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

// startServing is the service with a VIP and an ingress that answers.
func startServing(t *testing.T, env ...string) *service {
	t.Helper()
	addNetwork(t, writeKey)
	s := newService(t, explicit)
	s.start(env)
	addVIP(t)
	s.awaitReason(report.Serving)
	return s
}

// process is the process number of the service's gate, of which there is one.
func (s *service) gate() int { return s.childPID(child.Proxy) }

// childPID is the process number of the service's one child that runs a command; 0
// while there is none, or more than one.
func (s *service) childPID(command string) int {
	s.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	if err != nil || len(lists) == 0 {
		s.t.Fatalf("no lists of children: %v", err)
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

// awaitNewProxy waits for a gate that is not the old one.
func (s *service) awaitNewProxy(old int) int {
	s.t.Helper()
	pid := 0
	if !nstest.Poll(func() bool {
		pid = s.gate()
		return pid != 0 && pid != old
	}) {
		s.t.Fatalf("no gate has followed process %d", old)
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

const none = "0000000000000000" // no capability

// checkUnprivileged checks that a process has no privilege and no user of this host.
func checkUnprivileged(t *testing.T, pid int) {
	t.Helper()
	want := map[string]string{
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
		"Uid": "65520 65520 65520 65520", "Gid": "65520 65520 65520 65520", "Groups": "",
	}
	if diff := cmp.Diff(want, procStatus(t, pid, slices.Collect(maps.Keys(want))...)); diff != "" {
		t.Errorf("process %d (-want +got):\n%s", pid, diff)
	}
}

// What reads the network's bytes can do nothing with the host.
func TestProxyIsUnprivileged(t *testing.T) {
	s := startServing(t)
	answered(t, "by the gate")
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
			t.Errorf("the gate has %s open", target)
		}
	}
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || strings.Contains(string(environment), "NOTIFY_SOCKET") {
		t.Errorf("the gate's environment: %q, %v", environment, err)
	}
	if keeper := procStatus(t, s.cmd.Process.Pid, "NoNewPrivs", "CapEff"); keeper["CapEff"] == none {
		t.Errorf("the keeper has no capability either, so this shows nothing: %v", keeper)
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
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
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

// A gate that is killed costs what it had accepted: what waits in the backlog is
// the next one's.
func TestProxyIsKilled(t *testing.T) {
	s := startServing(t)
	l := startLoad()
	const kills = 5
	pid := 0
	for range kills {
		pid = s.awaitNewProxy(pid)
		before := l.answered.Load()
		if !nstest.Poll(func() bool { return l.answered.Load() > before+20 }) {
			t.Fatal("nobody is answered")
		}
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	s.awaitNewProxy(pid)
	l.finish()
	t.Logf("%d answered, %d broken off by %d kills, %d refused", l.answered.Load(), l.failed.Load(), kills, l.refused.Load())
	if l.refused.Load() > 0 || l.failed.Load() > kills*clients {
		t.Errorf("%d refused; %d broken off, where %d can have been in flight", l.refused.Load(), l.failed.Load(), kills*clients)
	}
	answered(t, "afterwards")
	s.awaitLog("has ended (signal: killed): challenges that it had accepted are lost; another takes over its ports")
	// So many in a minute are a state of the service, though each has a successor.
	r := s.await("the state", func(r report.Report) bool { return r.Condition().Reason == report.ProxyUnavailable })
	if r.Condition().Status != "False" || !strings.Contains(r.Condition().Message, "the 5. within a minute") {
		t.Errorf("%+v", r.Condition())
	}
	s.stop()
}

// A gate that hangs is replaced, as one that ends is.
func TestProxyHangs(t *testing.T) {
	s := startServing(t, serviceTiming+`={"GateSilence": 5000000000}`)
	pid := s.awaitNewProxy(0)
	must(t, unix.Kill(pid, unix.SIGSTOP))
	// Until all of its threads have stopped it may accept a connection, which ends with it.
	if !nstest.Poll(func() bool { return isStopped(pid) }) {
		t.Fatal("the gate goes on")
	}
	begin := time.Now()
	answered(t, "meanwhile")
	t.Logf("a challenge that met a gate that hangs waited %v", time.Since(begin))
	s.awaitNewProxy(pid)
	s.awaitLog("has been silent for ")
	s.awaitReason(report.Serving) // one is no more than an accident
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

// The gate ends with the keeper, however that ends.
func TestProxyEndsWithController(t *testing.T) {
	s := startServing(t)
	pid := s.awaitNewProxy(0)
	s.signal(syscall.SIGKILL)
	if !nstest.Poll(func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }) {
		t.Errorf("the gate, process %d, outlives the keeper", pid)
	}
}

// A configuration that is changed reaches the gate that there is and the next.
func TestNextProxyIsConfigured(t *testing.T) {
	s := startServing(t)
	pid := s.awaitNewProxy(0)
	s.configure(explicit + "hosts: [other.example.com]\n")
	refused := func() bool {
		code, _ := request(t, token)
		return code == 400
	}
	if !nstest.Poll(refused) {
		t.Error("a foreign name is answered")
	}
	must(t, unix.Kill(pid, unix.SIGKILL))
	s.awaitNewProxy(pid)
	if !nstest.Poll(refused) {
		t.Error("a foreign name is answered by the next gate")
	}
	s.stop()
}

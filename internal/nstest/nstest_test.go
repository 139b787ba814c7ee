// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testTimeout bounds every wait for a condition on a loaded machine.
const testTimeout = 30 * time.Second

const (
	// roleKey names the variable that makes this test binary play a role.
	roleKey = "HTTP01_PROXYD_NSTEST_ROLE"
	// roleHold starts a process that nothing ends, prints its PID namespace and waits
	// for a signal. roleExit exits with roleExitCode instead.
	roleHold, roleExit = "hold", "leave"
	// roleOrphan is the process that nothing ends.
	roleOrphan = "orphan"

	roleExitCode = 3
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleKey); role != "" && os.Getenv(marker) != "" && os.Getpid() != 1 {
		os.Exit(runRole(role))
	}
	Main(m)
}

func runRole(role string) int {
	if role == roleOrphan {
		signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
		return waitForever()
	}
	orphan := exec.Command("/proc/self/exe")
	orphan.Env = append(os.Environ(), roleKey+"="+roleOrphan)
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := orphan.Start()
	if err != nil {
		return exitWithError("start the orphan", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return exitWithError("find the PID namespace", err)
	}
	fmt.Println(namespace)
	if role == roleExit {
		return roleExitCode
	}
	return waitForever()
}

// waitForever blocks: this process holds the end that would have to be closed.
func waitForever() int {
	r, w, err := os.Pipe()
	if err != nil {
		return exitWithError("wait", err)
	}
	defer w.Close()
	_, _ = r.Read(make([]byte, 1))
	return 0
}

// TestEnd: no process that the tests started outlives them, however they end.
func TestEnd(t *testing.T) {
	Require(t)
	for name, tt := range map[string]struct {
		role   string
		signal unix.Signal // 0: the tests exit
		code   int
	}{
		"by themselves": {role: roleExit, code: roleExitCode},
		"SIGKILL":       {roleHold, unix.SIGKILL, -1},
		"SIGTERM":       {roleHold, unix.SIGTERM, 1},
		"Ctrl-C":        {roleHold, unix.SIGINT, 1},
		// The runtime prints every goroutine and exits with 2.
		"go test -timeout": {roleHold, unix.SIGQUIT, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, marker+"=") })
			cmd.Env = append(cmd.Env, roleKey+"="+tt.role, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			namespace := strings.TrimSpace(line)
			if own, err := os.Readlink("/proc/self/ns/pid"); err != nil || own == namespace {
				t.Fatalf("the tests have the PID namespace of this process: %s, %v", own, err)
			}
			if tt.signal != 0 {
				if err := cmd.Process.Signal(tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
			awaitEmpty(t, namespace)
		})
	}
}

// TestInside: the tests run in namespaces of their own, not as process 1, and with a
// /proc of that PID namespace.
func TestInside(t *testing.T) {
	Require(t)
	if os.Getpid() == 1 {
		t.Error("the tests run as process 1")
	}
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		t.Errorf("/proc/self is %s, this process is %d: %v", self, os.Getpid(), err)
	}
	if ID() == "" {
		t.Error("no ID")
	}
	if lo, err := net.InterfaceByName("lo"); err != nil || lo.Flags&net.FlagUp == 0 {
		t.Errorf("lo is not up: %+v, %v", lo, err)
	}
}

// awaitEmpty waits until a PID namespace has no process.
func awaitEmpty(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		remaining := processesIn(t, namespace)
		if len(remaining) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still there: %v", remaining)
		}
	}
}

func processesIn(t *testing.T, namespace string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var in []string
	for _, path := range paths {
		of, err := os.Readlink(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EACCES) {
			t.Fatal(err)
		}
		if of == namespace {
			in = append(in, path)
		}
	}
	return in
}

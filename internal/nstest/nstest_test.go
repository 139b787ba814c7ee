// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// scriptKey names the variable with a script that this test binary runs in place of its tests.
const scriptKey = "HTTP01_PROXYD_NSTEST_SCRIPT"

func TestMain(m *testing.M) {
	if script := os.Getenv(scriptKey); script != "" && os.Getenv(marker) != "" {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = os.Stdout
		_ = cmd.Run()
		os.Exit(cmd.ProcessState.ExitCode())
	}
	Main(m)
}

// TestEnd: no process that the tests started outlives them, however they end.
func TestEnd(t *testing.T) {
	Require(t)
	const orphan = "trap '' HUP INT TERM QUIT; setsid sleep infinity >/dev/null & readlink /proc/self/ns/pid; "
	for name, tt := range map[string]struct {
		end    string
		signal unix.Signal // 0: the tests exit
		code   int
	}{
		"by themselves":    {end: "exit 3", code: 3},
		"SIGKILL":          {"sleep infinity", unix.SIGKILL, -1},
		"go test -timeout": {"sleep infinity", unix.SIGQUIT, -1},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, marker+"=") })
			cmd.Env = append(cmd.Env, scriptKey+"="+orphan+tt.end)
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
			Await(t, "no process is in "+namespace, func() bool { return len(processesIn(t, namespace)) == 0 })
		})
	}
}

// processesIn returns the processes of a PID namespace below the namespace of the test.
func processesIn(t *testing.T, namespace string) (in []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v: %v", paths, err)
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		of, _ := os.Readlink(path) // it may have ended
		return of != namespace
	})
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

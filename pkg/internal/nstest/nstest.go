// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package nstest owns the fresh network namespace in which a package's kernel
// tests run.
//
// A network namespace belongs to a thread, and the Go runtime moves goroutines
// between threads. So the namespace is made around the whole test process
// instead of inside it: every goroutine, and every child process such as nft
// or ip, is in it without further ado, and the kernel removes it with all
// tables and addresses when the process is gone.
package nstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// marker says that this process is the one inside the fresh namespace.
const marker = "HTTP01_PROXYD_NSTEST"

// Main is the body of a TestMain: it runs the package's tests again in a fresh
// network namespace with lo up, and exits with their result. Without root it
// runs them where they are; tests that need the namespace call Need.
func Main(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(marker) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "nstest:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(reexec())
}

// Need skips the test where no fresh namespace could be made, which is
// anywhere but as root.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(marker) == "" {
		t.Skip("needs root: a network namespace of its own")
	}
}

// Run executes a command inside the namespace and returns its standard output;
// a failure ends the test with what the command printed.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	return Input(t, "", name, args...)
}

// Input is Run with text on the command's standard input.
func Input(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

func reexec() int {
	// The parent-death signal follows the thread that forked.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET,
		Pdeathsig:  unix.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "nstest: run the tests in a fresh network namespace:", err)
		return 1
	}
}

func loopbackUp() error {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("set lo up: %w: %s", err, out)
	}
	return nil
}

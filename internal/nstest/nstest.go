// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package nstest owns the fresh network namespace in which a package's kernel
// tests run, and what tests of several packages need to wait for others.
//
// A network namespace belongs to a thread, and the Go runtime moves goroutines
// between threads. So the namespace is made around the whole test process
// instead of inside it: every goroutine, and every child process such as nft
// or ip, is in it without further ado, and the kernel removes it with all
// tables and addresses when the process is gone.
//
// Three processes run this program: the one outside, which `go test` started;
// the first of the PID namespace, which does what init does; and its child,
// which runs the tests as any process would.
package nstest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// marker says that this process is inside the fresh namespaces; its value is
// the process id of the one outside that made them.
const marker = "HTTP01_PROXYD_NSTEST"

// Main is the body of a TestMain: it runs the package's tests again in a fresh
// network namespace with lo up, and exits with their result. They also have a
// PID namespace of their own, so that the kernel ends every process that they
// started, however they end themselves. Without root it runs the tests where
// they are; those that need the namespaces call Need.
func Main(m *testing.M) {
	switch {
	case os.Geteuid() != 0:
		os.Exit(m.Run())
	case os.Getenv(marker) == "":
		os.Exit(runOutside())
	case os.Getpid() == 1:
		os.Exit(runInit())
	default:
		os.Exit(m.Run())
	}
}

// ID tells the tests of one process from those of others that run at the same
// time on this machine, which their own process id does not.
func ID() string { return os.Getenv(marker) }

// Require skips the test where no fresh namespace could be made, which is
// anywhere but as root.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv(marker) == "" {
		t.Skip("needs root: a network namespace of its own")
	}
}

// Run executes a command inside the namespace and returns its standard output;
// a failure ends the test with what the command printed.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	return RunWithInput(t, "", name, args...)
}

// AddAddress gives a link that is up an address, such as 192.0.2.5/24, and waits until
// it is the host's own: the kernel adds the local route of an IPv6 address in the
// background.
func AddAddress(t testing.TB, link, address string) {
	t.Helper()
	args := []string{"address", "add", address, "dev", link}
	if strings.Contains(address, ":") {
		args = append(args, "nodad")
	}
	Run(t, "ip", args...)
	host, _, _ := strings.Cut(address, "/")
	Await(t, host+" is the host's own", func() bool {
		return strings.HasPrefix(Run(t, "ip", "-o", "route", "get", host), "local ")
	})
}

// RunWithInput is Run with text on the command's standard input.
func RunWithInput(t testing.TB, stdin, name string, args ...string) string {
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

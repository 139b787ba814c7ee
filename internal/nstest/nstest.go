// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A network namespace belongs to a thread, and the Go runtime moves goroutines between
// threads. The namespace is therefore created around the whole test process: every
// goroutine, and every child process such as nft or ip, is in it. The kernel removes it
// with all tables and addresses when the process ends.
//
// marker names the variable that is set inside the fresh namespaces. Its value is the
// process ID of the outer process.
const marker = "HTTP01_PROXYD_NSTEST"

// Main is the body of a TestMain. It runs the package's tests again in a fresh network
// namespace with lo up, and exits with their result. The tests also run in their own PID
// namespace: the kernel ends every process that they started, however they end. Without root it
// runs the tests in the namespaces of the caller; tests that need fresh ones call Require.
func Main(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv(marker) == "" {
		fmt.Fprintln(os.Stderr, "nstest: run the tests in fresh namespaces:", enter())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter replaces this process by one that runs this program again in the namespaces. The shell is
// process 1, for which the kernel treats signals and orphans differently. The end of unshare, which
// keeps the ID of this process, ends all of them.
func enter() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	args := []string{
		"unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--", "sh", "-c", `ip link set lo up && "$@"; exit $?`, "sh", program,
	}
	environment := append(os.Environ(), marker+"="+strconv.Itoa(os.Getpid()))
	return unix.Exec(unshare, append(args, os.Args[1:]...), environment)
}

// ID identifies the tests of one process among all tests on this machine. Their own process ID
// does not.
func ID() string { return os.Getenv(marker) }

// Require skips the test when it does not run in a fresh namespace, which requires root.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv(marker) == "" {
		t.Skip("needs root: a network namespace of its own")
	}
}

// Run runs a command inside the namespace and returns its standard output. A failure
// ends the test with the command's output.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	return RunWithInput(t, "", name, args...)
}

// AddAddress adds an address, such as 192.0.2.5/24, to a link that is up, and waits until its
// local route exists: the kernel adds the route of an IPv6 address in the background.
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

// PathEnds returns the statements of nftables for the packets of a path that ended: nobody
// receives them, or a router answers with ICMP.
func PathEnds() []string {
	return []string{
		"drop", "reject with icmp host-unreachable", "reject with icmp port-unreachable",
		"reject with icmp prot-unreachable", "reject with icmp admin-prohibited",
	}
}

// EndPath applies a statement of PathEnds to all TCP packets of IPv4 from a port, until the
// test ends.
func EndPath(t testing.TB, port uint16, statement string) {
	t.Helper()
	Require(t)
	table := fmt.Sprintf("ip path-from-%d", port)
	const rule = "table %s { chain input { type filter hook input priority 0; tcp sport %d %s; }; }"
	RunWithInput(t, fmt.Sprintf(rule, table, port, statement), "nft", "-f", "-")
	t.Cleanup(func() {
		remove := exec.CommandContext(context.WithoutCancel(t.Context()), "nft", "delete table "+table)
		if output, err := remove.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", remove, err, output)
		}
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

// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	// childVariable makes the test binary a process that boots a host in its own cell,
	// reports it and waits.
	childVariable = "HTTP01_HOST_TEST_HOLD"
	upMessage     = "the host is up"
)

func runUntilKilled(c *host.Cell) int {
	ctx := context.Background()
	if err := c.AddBridge(ctx, bridge); err != nil {
		fmt.Println(err)
		return 1
	}
	h, err := c.NewHost(host.Options{Name: "held", Tree: os.Getenv(treeVariable), Bridge: bridge, Addresses: address(11).onLink()})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := h.Boot(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(upMessage)
	select {}
}

// TestNothingOutlivesItsCell holds that no process of a host survives its cell. The next
// cell removes the cgroups of a killed one.
func TestNothingOutlivesItsCell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	var last string
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGINT, unix.SIGTERM} {
		cgroup := endCell(t, signal)
		if last != "" && len(cgroups(t, last)) > 0 {
			t.Errorf("the next cell did not remove %v", cgroups(t, last))
		}
		last = cgroup
		if left := cgroups(t, cgroup); signal != unix.SIGKILL && len(left) > 0 {
			t.Errorf("left after %v: %v", signal, left)
		}
	}
}

// endCell starts a cell with a host, sends it a signal, and waits until no process of it
// remains. It returns the name of the cell's cgroup.
func endCell(t *testing.T, signal unix.Signal) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "HTTP01_HOST_CELL=") }), childVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	cgroup := "http01-host-" + strconv.Itoa(cmd.Process.Pid)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != upMessage {
		t.Fatalf("the cell printed %q, %v", lines.Text(), lines.Err())
	}
	if n := len(members(t, cgroup)); n < 3 {
		t.Fatalf("%d processes of the host, want at least 3", n)
	}
	must(t, cmd.Process.Signal(signal))
	if err := cmd.Wait(); err == nil {
		t.Errorf("after %v the exit code is 0", signal)
	}
	must(t, lab.Eventually(ctx, "the host's end", func(context.Context) error {
		if left := members(t, cgroup); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	}))
	return cgroup
}

// members lists the processes in a cgroup and below it.
func members(t *testing.T, cgroup string) []string {
	t.Helper()
	var found []string
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "/"+cgroup+"/") {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// cgroups returns the paths of a cgroup in all hierarchies.
func cgroups(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		some, err := filepath.Glob(pattern)
		must(t, err)
		found = append(found, some...)
	}
	return found
}

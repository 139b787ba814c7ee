// SPDX-License-Identifier: Apache-2.0

package cluster_test

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
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestNothingOutlivesAKill kills the outer process of a cluster and expects no process, and
// therefore no namespace, to remain. The kernel keeps a namespace only for processes and
// mounts, and the mounts end with the cell's mount namespace.
func TestNothingOutlivesAKill(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	before := namespaces(t)
	self := must1(os.Executable())(t)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, cellVariable+"=") }), childVariable+"=1")
	cmd.Stderr = os.Stderr
	out := must1(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != upMessage {
		t.Fatalf("the cell printed %q, %v", lines.Text(), lines.Err())
	}
	more := slices.DeleteFunc(namespaces(t), func(n string) bool { return slices.Contains(before, n) })
	// Those of the cell, of three hosts, and of the lab's gateway, internet and worker.
	if len(more) < 7 {
		t.Fatalf("the cluster added %d network namespaces, want at least 7", len(more))
	}
	must(t, cmd.Process.Signal(unix.SIGKILL))
	_ = cmd.Wait()
	must(t, lab.Eventually(ctx, "the cluster's end", func(context.Context) error {
		left := slices.DeleteFunc(namespaces(t), func(n string) bool { return !slices.Contains(more, n) })
		if len(left) > 0 {
			return fmt.Errorf("processes are still in %v", left)
		}
		return nil
	}))
}

// namespaces returns the network namespaces of all processes.
func namespaces(t *testing.T) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	must(t, err)
	var all []string
	for _, link := range links {
		name, err := os.Readlink(link)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		if name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// findLeftovers returns what a closed cluster left in its cell: cgroups, named namespaces,
// mounts and files.
func findLeftovers(cell *host.Cell) string {
	group := os.Getenv(cellVariable) + "/*/cgroup.procs" // of each boot
	var left []string
	for _, pattern := range []string{
		"/run/netns/*", "/run/http01-lab/*", cell.Path("*"), "/sys/fs/cgroup/" + group, "/sys/fs/cgroup/*/" + group,
	} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			panic(err)
		}
		left = append(left, some...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(mounts)) {
		// The cell's /run hides the mounts of other labs on this machine.
		point := strings.Fields(line)[4]
		_, err := os.Lstat(point)
		if err == nil && (strings.HasPrefix(point, cell.Path("")+"/") || strings.HasPrefix(point, "/run/netns/")) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return strings.Join(left, "\n")
}

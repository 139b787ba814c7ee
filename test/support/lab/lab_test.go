// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestSideBySide holds that two labs with the same addresses do not affect each other.
func TestSideBySide(t *testing.T) {
	first, binary := cluster(t)
	second, err := testLabs.newLab()
	must(t, err)
	t.Cleanup(func() { must(t, second.Close()) })
	for _, l := range []*Lab{first, second} {
		start(t, l.ControlPlane[0].Node, ServiceOptions{Binary: binary})
	}
	for _, l := range []*Lab{first, second} {
		name := publishName(t, l, "side-by-side", l.API)
		orderCertificate(t, l, name, l.Pods[0])
	}
	must(t, second.Close())
	expectGone(t, second.ID)
	name := publishName(t, first, "side-by-side", first.API)
	orderCertificate(t, first, name, nil)
}

// TestRemoval ends a process with two labs in two ways. After Ctrl-C it removes them; after
// SIGKILL Clean does, and keeps running labs.
func TestRemoval(t *testing.T) {
	bystander, _ := cluster(t)
	tests := []struct {
		name   string
		signal unix.Signal
		clean  bool // Clean must remove the leftovers
	}{
		{"Ctrl-C", unix.SIGINT, false},
		{"SIGKILL", unix.SIGKILL, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			process, ids := startLabProcess(t, 2)
			for _, id := range ids {
				if len(leftovers(t, id)) == 0 {
					t.Fatalf("running lab %s has no namespaces", id)
				}
			}
			must(t, process.Process.Signal(tt.signal))
			_ = process.Wait()
			if got := process.ProcessState.ExitCode(); !tt.clean && got != exitInterrupted {
				t.Errorf("exit code %d, want %d", got, exitInterrupted)
			}
			if tt.clean {
				// The kernel ends children with their parent.
				must(t, Eventually(t.Context(), "no process of the killed labs", func(ctx context.Context) error {
					return unpopulated(ctx, ids)
				}))
				removed, err := Clean(t.Context())
				must(t, err)
				// Another lab that starts may have removed them.
				if slices.Contains(removed, bystander.ID) {
					t.Errorf("Clean removed %v, but %s is running", removed, bystander.ID)
				}
			}
			for _, id := range ids {
				expectGone(t, id)
			}
		})
	}
	must(t, bystander.AwaitVIPs(t.Context()))
}

// startLabProcess starts a process with labs and returns their names.
func startLabProcess(t *testing.T, count int) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), labProcessVariable+"="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	var ids []string
	for range count {
		line, err := lines.ReadString('\n')
		must(t, err)
		id := strings.TrimSpace(line)
		if !strings.HasPrefix(id, prefix) {
			t.Fatalf("the lab did not start: %s", line)
		}
		ids = append(ids, id)
	}
	return cmd, ids
}

// unpopulated returns an error while a namespace of the labs has a process. keepalived and
// Pebble are killed with their parent; keepalived's child ends by itself.
func unpopulated(ctx context.Context, ids []string) error {
	for _, id := range ids {
		for _, node := range allParts().nodeNames() {
			list, err := pids(ctx, namespaceOf(id, node))
			if err != nil {
				return err
			}
			if len(list) > 0 {
				return errors.New(node + " still has processes")
			}
		}
	}
	return nil
}

// expectGone fails the test when something of a lab remains.
func expectGone(t *testing.T, id string) {
	t.Helper()
	if left := leftovers(t, id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// leftovers returns the namespaces and the directory of a lab.
func leftovers(t *testing.T, id string) []string {
	t.Helper()
	var left []string
	for _, dir := range []string{netnsDir, baseDir} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.Name() == id || strings.HasPrefix(e.Name(), id+"-") {
				left = append(left, e.Name())
			}
		}
	}
	return left
}

func TestWithoutTable(t *testing.T) {
	const own = "table inet http01-proxyd { # handle 7\n\tchain input {\n\t}\n}\n"
	const other = "table ip ocp_nat { # handle 1\n\tchain a {\n\t}\n}\n"
	const similar = "table inet http01-proxyd-x { # handle 9\n\tset s {\n\t}\n}\n"
	tests := []struct{ name, listing, want string }{
		{"nothing", "", ""},
		{"ours alone", own, ""},
		{"first", own + other, other},
		{"last", other + own, other},
		{"between", other + own + similar, other + similar},
		{"not there", other + similar, other + similar},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, withoutTable(tt.listing, ServiceTable)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventually(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	flat := errors.New("flat tyre")
	tries := 0
	tests := []struct {
		name string
		try  func(context.Context) error
		want string // part of the error; empty for none
	}{
		{"at once", func(context.Context) error { return nil }, ""},
		{"at last", func(context.Context) error {
			if tries++; tries < 3 {
				return flat
			}
			return nil
		}, ""},
		{"never", func(context.Context) error { return final(flat) }, "flat tyre"},
		{"cancelled", func(context.Context) error { cancel(); return flat }, "flat tyre"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Eventually(ctx, "the bus", tt.try)
			if (err == nil) != (tt.want == "") {
				t.Fatalf("got %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "the bus")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestInterruptedBringUp cancels the start of a lab at many points and expects no
// leftovers. The next lab starts normally.
func TestInterruptedBringUp(t *testing.T) {
	needRoot(t)
	tools, err := Build(t.Context())
	must(t, err)

	type moment struct {
		name string
		// until waits for the point.
		until func(ctx context.Context, before []string) error
	}
	moments := []moment{{"at once", func(context.Context, []string) error { return nil }}}
	// ip(8) creates the name before the namespace, so this point is during its run.
	for _, node := range (parts{controlPlaneNodes: ControlPlaneNodes}).nodeNames() {
		moments = append(moments, moment{"name of " + node, func(ctx context.Context, before []string) error {
			return awaitNewFile(ctx, before, filepath.Join(netnsDir, ownPrefix()+"*-"+node))
		}})
	}
	for _, file := range []string{
		"worker/*.log", "internet/*.log", "master0/keepalived.log", "master2/keepalived.log",
	} {
		moments = append(moments, moment{"file " + file, func(ctx context.Context, before []string) error {
			return awaitNewFile(ctx, before, filepath.Join(baseDir, ownPrefix()+"*", file))
		}})
	}
	for after := time.Millisecond; after < 2*time.Second; after = after * 5 / 2 {
		moments = append(moments, moment{"after " + after.String(), func(ctx context.Context, _ []string) error { return sleepContext(ctx, after) }})
	}
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			before := ownLeftovers(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			missed := make(chan error, 1)
			go func() {
				missed <- m.until(ctx, before)
				cancel()
			}()
			l, err := bringUp(ctx, tools)
			if err == nil {
				// The start completed before the point.
				err = l.Close()
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			cancel()
			if err := <-missed; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if left := added(before, ownLeftovers(t)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	l, err := bringUp(t.Context(), tools)
	must(t, err)
	must(t, l.Close())
}

// TestCleanBroken removes leftovers of killed programs: a name without a namespace, and
// namespaces of a lab without a directory.
func TestCleanBroken(t *testing.T) {
	needRoot(t)
	tests := []struct {
		name      string
		directory bool
	}{
		{"with its directory", true},
		{"without a directory", false},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// No process has this ID, which is above the kernel's limit of 4194304.
			id := fmt.Sprintf("%s%d-%d", prefix, 1<<23+os.Getpid(), i)
			if tt.directory {
				must(t, os.MkdirAll(filepath.Join(baseDir, id), 0o750))
			}
			must(t, addNamespace(t.Context(), namespaceOf(id, nameWorker)))
			must(t, os.WriteFile(netnsPath(namespaceOf(id, nameGateway)), nil, 0))
			if _, err := Clean(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Another lab that starts may have removed it.
			expectGone(t, id)
		})
	}
}

// TestCloseReportsLeftovers makes Close fail. Clean must find what remains.
func TestCloseReportsLeftovers(t *testing.T) {
	needRoot(t)
	l := &Lab{}
	var err error
	l.ID, l.Dir, l.lock, err = claim()
	must(t, err)
	// ip(8) cannot remove a directory in place of a namespace.
	stuck := netnsPath(namespaceOf(l.ID, nameGateway))
	must(t, os.Mkdir(stuck, 0o700))
	t.Cleanup(func() { _ = os.Remove(stuck) })
	if err := l.Close(); err == nil {
		t.Fatal("Close returned no error")
	}
	if _, err := os.Stat(l.Dir); err != nil {
		t.Errorf("the directory: %v", err)
	}
	must(t, os.Remove(stuck))
	if _, err := Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectGone(t, l.ID)
}

// ownPrefix returns the prefix of the names of this process's labs.
func ownPrefix() string { return fmt.Sprintf("%s%d-", prefix, os.Getpid()) }

// awaitNewFile waits until a pattern matches a new file.
func awaitNewFile(ctx context.Context, before []string, pattern string) error {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			if !slices.ContainsFunc(before, func(old string) bool { return strings.HasPrefix(path+"/", old+"/") }) {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ownLeftovers returns what this process's labs have: namespaces, directories, and
// processes with the lab's directory as working directory or in an argument.
func ownLeftovers(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{netnsDir, baseDir} {
		found, err := filepath.Glob(filepath.Join(dir, ownPrefix()+"*"))
		must(t, err)
		all = append(all, found...)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, p := range processes {
		// The process may have exited.
		arguments, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		directory, _ := os.Readlink(filepath.Join(p, "cwd"))
		if bytes.Contains(arguments, []byte(ownPrefix())) || strings.Contains(directory, ownPrefix()) {
			all = append(all, fmt.Sprintf("%s %s in %s", p, bytes.ReplaceAll(arguments, []byte{0}, []byte{' '}), directory))
		}
	}
	return all
}

func added(before, after []string) []string {
	return slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) })
}

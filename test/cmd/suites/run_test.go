// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asProgram makes this test binary run as the program.
const asProgram = "HTTP01_SUITES_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if behaviour := os.Getenv(fakeProgramVariable); behaviour != "" {
		os.Exit(fakeTestProgram(behaviour))
	}
	os.Exit(m.Run())
}

// repository returns the root of the checkout. Tests run in their package's folder.
func repository() (string, error) { return filepath.Abs("../../..") }

// TestInterrupted sends Ctrl-C to the program while a lab and a service run. Nothing of
// them may remain.
func TestInterrupted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	before, err := takeSnapshot(root)
	if err != nil {
		t.Fatal(err)
	}
	// The path of t.TempDir is too long for a socket.
	tmp, err := os.MkdirTemp("", "i") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-root", root, "-set", setMain, "-only", "^test/suites/topology$")
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var id string
	err = eventually(t.Context(), func() error {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the program has ended: %w", errors.Join(err, errEnded))
		default:
		}
		runs, _ := filepath.Glob(filepath.Join(tmp, "h01-*"))
		if len(runs) != 1 {
			return fmt.Errorf("%d runs", len(runs))
		}
		id = filepath.Base(runs[0])
		all := processes(id)
		for _, want := range []string{" keepalived --dont-fork", "http01-proxyd run "} {
			if !slices.ContainsFunc(all, func(p string) bool { return strings.Contains(p, want) }) {
				return fmt.Errorf("no process %q among %q", want, all)
			}
		}
		return nil
	})
	signalErr := cmd.Process.Signal(unix.SIGINT)
	waitErr := <-ended
	if err := errors.Join(err, signalErr); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var exit *exec.ExitError
	if !errors.As(waitErr, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("it ended with %v, want exit code %d", waitErr, exitInterrupted)
	}
	if strings.Contains(out.String(), "the run left") {
		t.Error(out.String())
	}
	remaining, err := leftovers(before, root, id, "")
	if err != nil || len(remaining) > 0 {
		t.Errorf("left: %v, %q", err, remaining)
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("temporary files left: %v, %v", files, err)
	}
}

// TestLeft holds that leftovers of a run are found and earlier files are ignored.
func TestLeft(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	before, err := takeSnapshot(root)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	id := filepath.Base(filepath.Dir(tmp))
	dir := filepath.Join(tmp, "1", "t")
	file := filepath.Join(dir, "left-behind")
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Env = append(os.Environ(), runVariable+"="+id)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if got := processes(id); !slices.Equal(got, []string{fmt.Sprintf("process %d sleep 600", pid)}) {
		t.Errorf("processes %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	got, err := filesIn(tmp)
	if want := "temporary file " + file; err != nil || !slices.Equal(got, []string{want}) {
		t.Errorf("files %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, err := leftovers(before, root, id, tmp); err != nil || len(got) > 0 {
		t.Errorf("left: %v, %q", err, got)
	}
}

// errEnded ends the attempts of eventually.
var errEnded = errors.New("no further try")

// eventually tries for some minutes, because the first run on a machine compiles.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
